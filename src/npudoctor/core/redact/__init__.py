"""Takes secrets out of what is shown: text, JSON, the journal, the bundle of `explain --collect`.

Our own detectors are always on and need nothing but `re`: a node without network has them all.
detect-secrets, the kept list of vendors' forms, loads in 0.13 s where a whole check takes 0.8, brings
requests and PyYAML (7 MB), and knows neither names nor command lines as training jobs log them. So it is
the extra `secrets`, asked in addition for what leaves the machine, the bundle (redact/bundle.py).

Here belongs what recognises a secret and where it ends. Who shows something calls `redact.redact` by himself.
"""
