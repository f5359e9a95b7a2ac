import { expect, test } from "vitest";
import { tagsTyped } from "./annotate-session";

test("tags are typed with commas between, each kept once", () => {
  expect(tagsTyped(" sweep 3, good,,good , ")).toEqual(["sweep 3", "good"]);
  expect(tagsTyped("  ")).toEqual([]);
});
