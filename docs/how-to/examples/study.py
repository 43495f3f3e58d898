from numfmt import FP8_E4M3, plots, sumplots
from numfmt.study import Data, Study

# Products of FP8 numbers, as in a GEMM: which accumulator, which order?
study = Study(
    formats=["bf16", "fp16", "e8m13"],
    methods=["sequential", "pairwise", ("lanes", {"lanes": 32})],
    terms=[64, 256, 1024, 4096],
    seeds=range(2),
    rows=64,  # sums per cell
    data=Data("normal", fmt=FP8_E4M3, products=True),
)

if __name__ == "__main__":  # worker processes import this file
    rows = study.run("sums.sqlite")
    print(f"{len(rows)} cells; of those with 4096 terms and seed 0:")
    print("format method      norm error   rms units  bound")
    for row in rows:
        if row["terms"] == 4096 and row["seed"] == 0:
            text = "{format:6} {method:11} {norm_error:10.4%}  {units_rms:10.3f}"
            print(text.format(**row), f"{row['bound_median']:6.4g}")
    plots.save(sumplots.error_against_terms(rows), "sums.svg")
