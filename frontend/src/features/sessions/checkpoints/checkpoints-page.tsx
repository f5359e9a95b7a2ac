// The checkpoints of a run.
import { CheckpointsPanel } from "./checkpoints-panel";
import { RunPage } from "../run-page";

export function CheckpointsPage() {
  return <RunPage title="Checkpoints" of={CheckpointsPanel} />;
}
