import { expect, test } from "vitest";
import { tagsTyped } from "./typed-tags";

test("tags are typed with commas between, each kept once", () => {
  expect(tagsTyped(" sweep 3, good,,good , ")).toEqual(["sweep 3", "good"]);
  expect(tagsTyped("  ")).toEqual([]);
});
