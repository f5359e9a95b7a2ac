// A batch to take home: everything a step was made of, token by token. Its runtime has it, and the store once that is gone.
import { useMutation } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";
import { downloadBatch, hasEnded } from "../../../api/sessions";
import { isExported } from "../../../api/offline";
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
  const isStored = hasEnded(session) || session.state === "suspended"; // no runtime is asked then
  const isReady = session.state === "ready" || isStored;

  if (isExported || (hasEnded(session) && lastStep === undefined)) return null; // there is none

  function submit(event: SyntheticEvent) {
    event.preventDefault();
    save.mutate(batch);
  }

  return (
    <Panel title="Batches">
      <form onSubmit={submit} aria-label="Download a batch" className="space-y-3 p-4">
        {isReady && <ErrorNotice error={save.error} />}
        <TextField
          label={isStored ? "Step" : "Step, or the name of a refused batch"}
          description={
            isReady
              ? "Its episodes, every call, and the samples as the trainer got them, as JSON lines."
              : "They can be downloaded once the session is ready."
          }
          placeholder="no step yet"
          disabled={!isReady}
          value={typed ?? batch}
          onChange={(value) => {
            setTyped(value);
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
