// One command that brings every file of a checkpoint and compares each with its hash.
import type { CheckpointDownload } from "../../../api/types";
import { quoted } from "../../../ui/call-snippets";

/** Run again with addresses that are still good, it goes on where it was cut off. Each file must begin before `expires_at`. */
export function downloadScript({
  checkpoint_id: id,
  step,
  files,
  expires_at: until,
}: CheckpointDownload): string {
  const folder = `step-${String(step)}-${id}`;
  // A path is given to the shell alone, within quotes: no line break or leading hyphen in it means anything.
  const named = files.map((file) => ({ ...file, path: quoted(`./${file.path}`) }));
  return [
    "#!/bin/sh",
    `# All files of checkpoint ${id}, step ${String(step)}. A file that begins after ${until} is refused:`,
    "# take a new script then, and run it here; it goes on where this one stopped.",
    "set -e",
    `mkdir -p ${quoted(folder)}`,
    `cd ${quoted(folder)}`,
    ...named.map(
      ({ path, url }) => `curl -fL --retry 5 -C - --create-dirs -o ${path} ${quoted(url)}`,
    ),
    "check() {",
    '  [ "$(sha256sum <"$2" | cut -c1-64)" = "$1" ] || { echo "$2: FAILED, its hash is not $1" >&2; exit 1; }',
    '  echo "$2: OK"',
    "}",
    ...named.map(({ path, sha256 }) => `check ${sha256} ${path}`),
    "",
  ].join("\n");
}

/** The same by the command line client: it asks for addresses itself and downloads side by side. */
export function downloadCommand(sessionId: string, checkpointId: string): string {
  return `tinkerscript download ${sessionId} ${checkpointId} --checkpoint ${checkpointId}`;
}
