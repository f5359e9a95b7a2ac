"""Names of vLLM's ``load_format`` that ``packed_loader.py`` registers, for those who do not import
vLLM.
"""

PACKED = "tinkerscript-packed"  # lower case: vLLM makes it so
AWAITED = "tinkerscript-awaited"
