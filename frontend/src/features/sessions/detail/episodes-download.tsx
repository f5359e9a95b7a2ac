// Every trajectory that has ended, to take home: Parquet files that the store serves.
import { useMutation } from "@tanstack/react-query";
import { save } from "../../../api/client";
import { exportEpisodes } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { Button } from "../../../ui/button";
import { bytes, number, timeOfDay } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { FileLinks } from "../file-links";

export function EpisodesDownload({ session }: { session: Session }) {
  const archive = useMutation({
    mutationFn: () => exportEpisodes(session.id),
    onSuccess: ({ files }) => {
      if (files[0] && files.length === 1) save(files[0].url, files[0].path); // of several each is a link below
    },
  });
  const size = archive.data?.files.reduce((sum, file) => sum + file.size_bytes, 0) ?? 0;
  return (
    <Panel title="Archive">
      <div className="space-y-3 p-4">
        <ErrorNotice error={archive.error} />
        <p className="text-xs text-muted">
          Every episode that has ended, with its calls and token ids, as Parquet: archived with each
          checkpoint, and when the session is suspended, is stopped or fails.
        </p>
        <Button
          disabled={archive.isPending}
          onClick={() => {
            archive.mutate();
          }}
        >
          Download episodes
        </Button>
        {archive.data && (
          <div className="text-xs">
            <FileLinks files={archive.data.files} />
            <p className="mt-2 text-muted">
              {number(archive.data.episodes)} episodes, {bytes(size)}. Links are good until{" "}
              {timeOfDay(archive.data.expires_at)}.
            </p>
          </div>
        )}
      </div>
    </Panel>
  );
}
