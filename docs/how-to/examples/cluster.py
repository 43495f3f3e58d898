import sys

from study import study

if __name__ == "__main__":
    rows = study.run("sums.sqlite", client=sys.argv[1])  # tcp://HOST:8786
    print(f"{len(rows)} cells")
