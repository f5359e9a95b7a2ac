import unittest

from words import wrapped


class Wrapped(unittest.TestCase):
    def test_one_line(self):
        self.assertEqual(wrapped("a bc", 10), ["a bc"])

    def test_exactly_full(self):
        self.assertEqual(wrapped("ab cd ef", 5), ["ab cd", "ef"])

    def test_a_long_word(self):
        self.assertEqual(wrapped("a longest b", 4), ["a", "longest", "b"])

    def test_nothing(self):
        self.assertEqual(wrapped("", 4), [])
