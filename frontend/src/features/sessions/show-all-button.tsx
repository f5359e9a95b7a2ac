// Switches a panel of options between the few that matter and all of them.
import { Button } from "../../ui/button";

interface Props {
  all: boolean;
  fewer: string; // what the few are called on the button
  count: number; // of all options
  onToggle: () => void;
}

export function ShowAllButton({ all, fewer, count, onToggle }: Props) {
  return (
    <Button look="quiet" className="h-7" aria-pressed={all} onClick={onToggle}>
      {all ? fewer : `Show all ${String(count)}`}
    </Button>
  );
}
