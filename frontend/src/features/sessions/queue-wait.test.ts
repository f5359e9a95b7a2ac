import { expect, test } from "vitest";
import { startText } from "./queue-wait";

test("a wait is told by whole minutes, and one that is not known by no number", () => {
  expect([null, 0, 59, 89, 1500, 5400, 90_000].map((waitS) => startText({ queue_wait_s: waitS }))).toEqual([
    "",
    "starts in less than a minute",
    "starts in less than a minute",
    "starts in about 1 min",
    "starts in about 25 min",
    "starts in about 1 h 30 min",
    "starts in about 1 d 1 h",
  ]);
});
