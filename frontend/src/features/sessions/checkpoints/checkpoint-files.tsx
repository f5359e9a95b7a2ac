// The files of a checkpoint: each as a link, and all of them by one command.
import { useQuery } from "@tanstack/react-query";
import { downloadQuery } from "../../../api/checkpoints";
import type { Checkpoint } from "../../../api/types";
import { save } from "../../../api/client";
import { Button } from "../../../ui/button";
import { CopyBlock } from "../../../ui/copy";
import { bytes, number, timeOfDay } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { FileLinks } from "../file-links";
import { downloadCommand, downloadScript } from "./download-script";

export function CheckpointFiles({ checkpoint }: { checkpoint: Checkpoint }) {
  const { data, error } = useQuery(downloadQuery(checkpoint.session_id, checkpoint.id));
  if (error) return <ErrorNotice error={error} />;
  if (!data) return <p className="px-9 py-2 text-xs text-muted">Signing links…</p>;
  const keepScript = () => {
    const url = URL.createObjectURL(new Blob([downloadScript(data)], { type: "text/x-shellscript" }));
    save(url, `${checkpoint.id}.sh`);
    URL.revokeObjectURL(url);
  };
  return (
    <div className="space-y-2 border-t border-line bg-sunken px-4 py-2 pl-9 text-xs">
      <FileLinks files={data.files} />
      <p className="text-muted">
        {data.files.length > 1 && `${number(data.files.length)} files, ${bytes(checkpoint.size_bytes)}. `}
        Links are good until {timeOfDay(data.expires_at)} and are renewed while shown.
      </p>
      <CopyBlock label="All files" text={downloadCommand(checkpoint.session_id, checkpoint.id)} />
      <p className="flex flex-wrap items-center gap-2 text-muted">
        <Button className="h-6 px-2 text-xs" onClick={keepScript}>
          Script for all files
        </Button>
        for a machine without the client: curl and sha256sum, started before {timeOfDay(data.expires_at)}. Whoever has it can read the files until then.
      </p>
    </div>
  );
}
