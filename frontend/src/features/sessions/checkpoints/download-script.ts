// One command that brings every file of a checkpoint and compares each with its hash.
import type { CheckpointDownload } from "../../../api/types";

/** For a POSIX shell: within single quotes everything stands for itself but a single quote. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Run again, it goes on where it was cut off. Its addresses are good until `expires_at`. */
export function downloadScript({ checkpoint_id: id, step, files, expires_at: until }: CheckpointDownload): string {
  const folder = `step-${String(step)}-${id}`;
  const fetches = files.map((file) => `curl -fL --retry 5 -C - --create-dirs -o ${quoted(file.path)} ${quoted(file.url)}`);
  const sums = files.map((file) => `${file.sha256}  ${file.path}`);
  return [
    "#!/bin/sh",
    `# All files of checkpoint ${id}, step ${String(step)}. The addresses are good until ${until}.`,
    "set -e",
    `mkdir -p ${quoted(folder)}`,
    `cd ${quoted(folder)}`,
    ...fetches,
    "sha256sum -c <<'END_OF_SUMS'",
    ...sums,
    "END_OF_SUMS",
    "",
  ].join("\n");
}

/** The same by the command line client: it asks for addresses itself and downloads side by side. */
export function downloadCommand(sessionId: string, checkpointId: string): string {
  return `tinkerscript download ${sessionId} ${checkpointId} --checkpoint ${checkpointId}`;
}
