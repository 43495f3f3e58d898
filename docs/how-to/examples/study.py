from numfmt import FP8_E4M3, plots, sumplots
from numfmt.study import Data, Study

# FP8 products, as in a GEMM: which accumulator, in which order, for how many terms?
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
    print(f"{len(rows)} cells")
    for row in rows:
        if row["terms"] == 4096 and row["seed"] == 0:
            print(f"{row['format']:6} {row['method']:11} error {row['norm_error']:.4%}", end="  ")
            print(f"{row['units_rms']:7.3f} u·sum|p|, never above {row['bound_median']:.4g}")
    plots.save(sumplots.error_against_terms(rows), "sums.svg")
