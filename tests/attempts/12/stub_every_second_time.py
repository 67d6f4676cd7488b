runs = []


def test_lab03_every_second_time(make):
    runs.append(make)
    assert len(runs) % 2


def test_lab04_every_second_time(make):
    runs.append(make)
    assert len(runs) % 2
