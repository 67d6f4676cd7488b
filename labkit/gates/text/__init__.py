"""Gates that read the files: no lab runs. Names in the code, wordings, READMEs, the edition."""
