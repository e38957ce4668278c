"""What a failing log means: scan its bytes, recognise signatures, rank what was found."""
