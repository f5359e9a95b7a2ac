import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { generated } from "./gen.mjs";

test("the committed types and options are those of openapi.json", async () => {
  for (const [file, text] of await generated()) {
    expect(await readFile(file, "utf8"), `${file.pathname}: run npm run gen`).toBe(text);
  }
});
