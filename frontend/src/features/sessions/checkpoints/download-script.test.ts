import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { downloadCommand, downloadScript } from "./download-script";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "checkpoint-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

/** Run by a real shell, with real curl, over files of this disk. */
function run(contents: Record<string, string>, claimed = contents): void {
  const files = Object.entries(contents).map(([path, text], at) => {
    const kept = join(folder, `kept-${String(at)}`);
    writeFileSync(kept, text);
    const sha256 = createHash("sha256")
      .update(claimed[path] ?? "")
      .digest("hex");
    return { path, url: pathToFileURL(kept).href, size_bytes: text.length, sha256 };
  });
  const script = downloadScript({
    checkpoint_id: "ckp_1",
    step: 7,
    files,
    expires_at: "2026-11-20T10:00:00Z",
  });
  execFileSync("sh", ["-c", script], { cwd: folder, stdio: "pipe" });
}

const FILES = {
  "config.json": "{}",
  "-o": "a hyphen",
  "a\nEND_OF_SUMS\ntouch owned\n#": "lines",
  "sub dir/it's $(touch owned) `x`.safetensors": "weights",
};

test("the script brings every file, whatever its name, under a folder of its own", () => {
  run(FILES);
  for (const [path, text] of Object.entries(FILES))
    expect(readFileSync(join(folder, "step-7-ckp_1", path), "utf8")).toBe(text);
  expect(
    existsSync(join(folder, "owned")) || existsSync(join(folder, "step-7-ckp_1", "owned")),
  ).toBe(false);
});

test("a second run goes on with a file that was cut off, and leaves whole ones as they are", () => {
  const kept = join(folder, "step-7-ckp_1");
  mkdirSync(kept);
  writeFileSync(join(kept, "config.json"), "{");
  run({ "config.json": "{}" });
  expect(readFileSync(join(kept, "config.json"), "utf8")).toBe("{}");
  run({ "config.json": "{}" });
});

test("a file that is not what its hash says fails the script", () => {
  expect(() => {
    run(FILES, { ...FILES, "config.json": "[]" });
  }).toThrow(/config\.json: FAILED/);
});

test("the command line client takes the same checkpoint", () => {
  expect(downloadCommand("ses_1", "ckp_1")).toBe(
    "tinkerscript download ses_1 ckp_1 --checkpoint ckp_1",
  );
});
