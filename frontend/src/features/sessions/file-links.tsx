// Files in the store, each a link that the store itself answers.
import { bytes } from "../../ui/format";

interface StoredFile {
  path: string;
  url: string;
  size_bytes: number;
  sha256: string;
}

export function FileLinks({ files }: { files: readonly StoredFile[] }) {
  return (
    <ul className="space-y-1">
      {files.map((file) => (
        <li key={file.path} className="flex justify-between gap-3">
          <a
            href={file.url}
            download={file.path.split("/").pop()}
            className="truncate font-mono text-accent hover:underline"
            title={`sha256 ${file.sha256}`}
          >
            {file.path}
          </a>
          <span className="shrink-0 text-muted tabular-nums">{bytes(file.size_bytes)}</span>
        </li>
      ))}
    </ul>
  );
}
