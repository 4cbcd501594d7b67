"""The log of records."""

from __future__ import annotations

import threading

from ipy_dynwrap.events import EagerCall, Log, Place


def event(number):
    return EagerCall("f#1", "f", str(number), None)


def test_records_are_kept_in_order_up_to_a_size():
    log = Log(size=3)
    for number in range(5):
        log.write(event(number))
    assert [each.reason for each in log.since()] == ["2", "3", "4"]
    assert log.written == 5


def test_records_since_a_moment():
    log = Log(size=3)
    log.write(event(0))
    moment = log.written
    assert log.since(moment) == ()
    for number in range(1, 3):
        log.write(event(number))
    assert [each.reason for each in log.since(moment)] == ["1", "2"]
    for number in range(3, 9):
        log.write(event(number))
    assert [each.reason for each in log.since(moment)] == ["6", "7", "8"]
    assert log.since(99) == ()


def test_clear_keeps_the_subscribers_and_the_count():
    log, heard = Log(), []
    log.subscribe(heard.append)
    log.write(event(0))
    log.clear()
    assert log.since() == ()
    moment = log.written
    log.write(event(1))
    assert [each.reason for each in log.since(moment)] == ["1"]
    assert [each.reason for each in heard] == ["0", "1"]


def test_a_subscriber_hears_until_it_ends():
    log, heard = Log(), []
    end = log.subscribe(heard.append)
    log.write(event(0))
    end()
    end()
    log.write(event(1))
    assert [each.reason for each in heard] == ["0"]


def test_a_subscriber_that_raises_is_dropped_and_the_others_hear():
    log, heard, calls = Log(), [], []

    def failing(record):
        calls.append(record)
        raise ValueError

    log.subscribe(failing)
    log.subscribe(heard.append)
    log.write(event(0))
    log.write(event(1))
    assert len(calls) == 1
    assert len(heard) == 2


def test_threads_lose_no_record():
    log = Log()
    threads = [threading.Thread(target=lambda: [log.write(event(0)) for _ in range(100)]) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert log.written == len(log.since()) == 400


def test_places_in_words():
    assert str(Place(3, 7, "<ipython-input-3>")) == "cell 3, line 7"
    assert str(Place(None, 7, "/home/me/train.py")) == "train.py:7"


def test_a_record_knows_when():
    first, second = event(0), event(0)
    assert 0 < first.at <= second.at
