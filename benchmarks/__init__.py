"""Speed promises of npudoctor, and the harness that measures them."""
