// A batch to take home: everything a step was made of, token by token. The session's runtime keeps it.
import { useMutation } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";
import { downloadBatch, hasEnded } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { Button } from "../../../ui/button";
import { TextField } from "../../../ui/field";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";

interface BatchDownloadProps {
  session: Session;
  /** None while no step is done. */
  lastStep: number | undefined;
}

export function BatchDownload({ session, lastStep }: BatchDownloadProps) {
  const [typed, setTyped] = useState<string | null>(null);
  const save = useMutation({ mutationFn: (batch: string) => downloadBatch(session.id, batch) });
  const batch = (typed ?? (lastStep === undefined ? "" : String(lastStep))).trim();
  const isReady = session.state === "ready";

  if (hasEnded(session)) return null; // its runtime is gone

  function submit(event: SyntheticEvent) {
    event.preventDefault();
    save.mutate(batch);
  }

  return (
    <Panel title="Batches">
      <form onSubmit={submit} aria-label="Download a batch" className="space-y-3 p-4">
        {isReady && <ErrorNotice error={save.error} />}
        <TextField
          label="Step, or the name of a refused batch"
          description={
            isReady
              ? "Its episodes, every call, and the samples as the trainer got them, as JSON lines."
              : "The runtime keeps batches: they can be downloaded while the session is ready."
          }
          placeholder="no step yet"
          disabled={!isReady}
          value={typed ?? batch}
          onChange={(event) => {
            setTyped(event.target.value);
            save.reset();
          }}
        />
        <Button type="submit" disabled={!isReady || !batch || save.isPending}>
          {save.isPending ? "Downloading…" : "Download batch"}
        </Button>
      </form>
    </Panel>
  );
}
