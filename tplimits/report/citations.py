"""BibTeX of the theorems and closed forms a derivation really used."""

from __future__ import annotations

from collections.abc import Iterable

from tplimits.law.closed_forms.table import CLOSED_FORMS

ENTRIES = {
    "yang2023tensor": """@article{yang2023tensor,
  title   = {Tensor Programs {IVb}: Adaptive Optimization in the Infinite-Width Limit},
  author  = {Yang, Greg and Littwin, Etai},
  journal = {arXiv preprint arXiv:2308.01814},
  year    = {2023}
}""",
    "isserlis1918formula": """@article{isserlis1918formula,
  title   = {On a Formula for the Product-Moment Coefficient of Any Order of a Normal Frequency Distribution},
  author  = {Isserlis, Leon},
  journal = {Biometrika},
  volume  = {12},
  pages   = {134--139},
  year    = {1918}
}""",
    "stein1981estimation": """@article{stein1981estimation,
  title   = {Estimation of the Mean of a Multivariate Normal Distribution},
  author  = {Stein, Charles M.},
  journal = {The Annals of Statistics},
  volume  = {9},
  pages   = {1135--1151},
  year    = {1981}
}""",
    "cho2009kernel": """@inproceedings{cho2009kernel,
  title     = {Kernel Methods for Deep Learning},
  author    = {Cho, Youngmin and Saul, Lawrence K.},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {22},
  year      = {2009}
}""",
    "williams1996computing": """@inproceedings{williams1996computing,
  title     = {Computing with Infinite Networks},
  author    = {Williams, Christopher K. I.},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {9},
  year      = {1996}
}""",
    "rahimi2007random": """@inproceedings{rahimi2007random,
  title     = {Random Features for Large-Scale Kernel Machines},
  author    = {Rahimi, Ali and Recht, Benjamin},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {20},
  year      = {2007}
}""",
    "cameron1944transformations": """@article{cameron1944transformations,
  title   = {Transformations of {Wiener} Integrals under Translations},
  author  = {Cameron, Robert H. and Martin, William T.},
  journal = {Annals of Mathematics},
  volume  = {45},
  pages   = {386--396},
  year    = {1944}
}""",
    "noci2023shaped": """@inproceedings{noci2023shaped,
  title     = {The Shaped Transformer: Attention Models in the Infinite Depth-and-Width Limit},
  author    = {Noci, Lorenzo and Li, Chuning and Li, Mufan Bill and He, Bobby and Hofmann, Thomas and
               Maddison, Chris J. and Roy, Daniel M.},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {36},
  year      = {2023}
}""",
    "jacot2018neural": """@inproceedings{jacot2018neural,
  title     = {Neural Tangent Kernel: Convergence and Generalization in Neural Networks},
  author    = {Jacot, Arthur and Gabriel, Franck and Hongler, Cl{\\'e}ment},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {31},
  year      = {2018}
}""",
    "hron2020infinite": """@inproceedings{hron2020infinite,
  title     = {Infinite Attention: {NNGP} and {NTK} for Deep Attention Networks},
  author    = {Hron, Jiri and Bahri, Yasaman and Sohl-Dickstein, Jascha and Novak, Roman},
  booktitle = {International Conference on Machine Learning},
  year      = {2020}
}""",
    "li2022neural": """@inproceedings{li2022neural,
  title     = {The Neural Covariance {SDE}: Shaped Infinite Depth-and-Width Networks at Initialization},
  author    = {Li, Mufan Bill and Nica, Mihai and Roy, Daniel M.},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {35},
  year      = {2022}
}""",
}


def bibtex(references: Iterable[str], closed_forms: Iterable[str]) -> str:
    """The entries for some citation keys and rows of the table of closed forms, each once."""
    row = {r.name: r.citation for r in CLOSED_FORMS}
    keys = dict.fromkeys([*references, *(row[name] for name in closed_forms)])
    return "\n\n".join(ENTRIES[k] for k in keys)
