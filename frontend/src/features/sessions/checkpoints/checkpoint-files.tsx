// The files of a checkpoint: each as a link, and all of them by one command.
import { useMutation, useQuery } from "@tanstack/react-query";
import { downloadQuery, readDownload } from "../../../api/checkpoints";
import type { Checkpoint } from "../../../api/types";
import { saveBlob } from "../../../api/client";
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
  return (
    <div className="space-y-2 border-t border-line bg-sunken px-4 py-2 pl-9 text-xs">
      <FileLinks files={data.files} />
      <p className="text-muted">
        {data.files.length > 1 &&
          `${number(data.files.length)} files, ${bytes(checkpoint.size_bytes)}. `}
        Links are good until {timeOfDay(data.expires_at)} and are renewed while shown.
      </p>
      <CopyBlock label="All files" text={downloadCommand(checkpoint.session_id, checkpoint.id)} />
      <ScriptForAll checkpoint={checkpoint} />
    </div>
  );
}

/** With addresses of its own, signed as it is made: those that are shown may be about to end. */
function ScriptForAll({ checkpoint }: { checkpoint: Checkpoint }) {
  const made = useMutation({
    mutationFn: () => readDownload(checkpoint.session_id, checkpoint.id),
    onSuccess: (download) => {
      const script = new Blob([downloadScript(download)], { type: "text/x-shellscript" });
      saveBlob(script, `${checkpoint.id}.sh`);
    },
  });
  return (
    <>
      <ErrorNotice error={made.error} />
      <p className="flex flex-wrap items-center gap-2 text-muted">
        <Button
          className="h-6 px-2 text-xs"
          disabled={made.isPending}
          onClick={() => {
            made.mutate();
          }}
        >
          Script for all files
        </Button>
        for a machine without the client, with curl and sha256sum. It brings one file after the
        other, and each must begin{" "}
        {made.data ? `before ${timeOfDay(made.data.expires_at)}` : "within minutes"}: for a large
        checkpoint use the command above. Whoever has the script can read the files until then.
      </p>
    </>
  );
}
