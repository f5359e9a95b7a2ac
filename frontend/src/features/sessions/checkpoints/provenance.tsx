// What a checkpoint was made of: the states before it down to the base model, its step, the run's options, and the hashes of its files.
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { provenanceQuery } from "../../../api/checkpoints";
import type { Checkpoint, CheckpointProvenance } from "../../../api/types";
import { CopyText } from "../../../ui/copy";
import { dateTime, number } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { UserText } from "../../../ui/plain-text";

export function Provenance({ checkpoint }: { checkpoint: Checkpoint }) {
  const { data, error } = useQuery(provenanceQuery(checkpoint.session_id, checkpoint.id));
  if (error) return <ErrorNotice error={error} />;
  if (!data) return <p className="px-9 py-2 text-xs text-muted">Loading…</p>;
  return <ProvenanceFacts provenance={data} />;
}

export function ProvenanceFacts({ provenance }: { provenance: CheckpointProvenance }) {
  const {
    ancestors,
    checkpoint_id: id,
    config_sha256: config,
    committed_at: committed,
    hashes_checked: checked,
  } = provenance;
  return (
    <dl className="grid grid-cols-[auto_minmax(0,1fr)] items-baseline gap-x-3 gap-y-1 border-t border-line bg-sunken px-4 py-2 pl-9 text-xs wrap-anywhere">
      <dt className="text-muted">Id</dt>
      <dd>
        <CopyText label="the checkpoint’s id" text={id} />
      </dd>
      <dt className="text-muted">Came from</dt>
      <dd>
        <ol>
          {ancestors.map((ancestor, at) => (
            <li key={ancestor.checkpoint_id ?? at}>
              <AncestorText ancestor={ancestor} sessionId={provenance.session_id} />
            </li>
          ))}
          <li>
            <Beginning provenance={provenance} />
          </li>
        </ol>
        {!provenance.loads_recorded && (
          <p className="text-muted">What its client loaded later is not recorded.</p>
        )}
      </dd>
      <dt className="text-muted">Committed</dt>
      <dd>{committed ? dateTime(committed) : "–"}</dd>
      <dt className="text-muted">Options</dt>
      <dd
        className="font-mono"
        title="SHA-256 of the run’s options: equal for two runs with the same options"
      >
        {config.slice(0, 16)}
      </dd>
      <dt className="text-muted">Hashes</dt>
      <dd>
        {checked
          ? "compared with the stored files"
          : "as the runtime sent them; the stored files are still to be compared"}
      </dd>
    </dl>
  );
}

/** What the oldest of the states came from. */
function Beginning({
  provenance: { ancestry_end: end, base_model: base },
}: {
  provenance: CheckpointProvenance;
}) {
  const name = <UserText text={base} />;
  if (end === "upload") return <>files that a client uploaded, for {name}</>;
  if (end === "unknown") return <>what was before is not known here; the run trains {name}</>;
  return <>{name}, base model</>;
}

function AncestorText({
  ancestor,
  sessionId,
}: {
  ancestor: CheckpointProvenance["ancestors"][number];
  sessionId: string;
}) {
  const {
    session_id: of,
    kind,
    step,
    checkpoint_id: id,
    tinker_path: path,
    is_deleted: isDeleted,
  } = ancestor;
  const name = path ? <UserText text={path} /> : null;
  if (id === null || of === null) return <>{name ?? "a state"}, not in this project or deleted</>;
  const text = `${kind ?? "state"} of step ${number(step)}`;
  return (
    <span title={id}>
      {of === sessionId ? (
        text
      ) : (
        <Link to={`/sessions/${of}`} className="rounded text-accent hover:underline">
          {text} of another run
        </Link>
      )}
      {name && <>, {name}</>}
      {isDeleted && ", deleted"}
    </span>
  );
}
