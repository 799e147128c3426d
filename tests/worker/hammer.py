"""Rewrites the first entry of the board behind the descriptor in argv, until it is killed."""

import sys

from fencepost.worker.board import Board

board = Board(int(sys.argv[1]), 0, 8)
while True:
    for number in range(1, 5000):
        at = board.publish(number * 1_000_003, number, number)
        board.start(at, number)
        board.clear(at)
