"""`python -m holddown`: the same program as the console script."""

from holddown.cli.main import main

if __name__ == "__main__":
    main()
