"""One file, one promise: each sets PROMISE and is found by being here."""
