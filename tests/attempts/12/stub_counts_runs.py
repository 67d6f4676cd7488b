runs = []


def suspicious(make):
    """The first ones are right, somebody said."""
    runs.append(make)
    assert len(runs) <= 6


test_lab03_suspicious = test_lab04_suspicious = test_lab01_suspicious = suspicious


def test_lab03_counts(make):
    suspicious(make)


def test_lab04_counts(make):
    suspicious(make)


def test_lab01_counts(make):
    suspicious(make)
