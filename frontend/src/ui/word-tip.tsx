// The explanation beside a word: below it, or above where there is no room.
import { WORDS } from "./words";

const WIDTH = 320;
const ROOM = 160;
const EDGE = 8;

export function WordTip({ id, name, place }: { id: string; name: string; place: DOMRect }) {
  const entry = WORDS[name];
  if (!entry) return null;
  const left = Math.max(EDGE, Math.min(place.left, window.innerWidth - WIDTH - EDGE));
  const isAbove = place.bottom + ROOM > window.innerHeight && place.top > ROOM;
  return (
    <div
      id={id}
      role="tooltip"
      className="pointer-events-none fixed z-30 max-w-[calc(100vw-1rem)] rounded-md border border-line bg-raised p-3 text-xs font-normal shadow-lg print:hidden"
      style={{
        left,
        width: WIDTH,
        ...(isAbove
          ? { bottom: window.innerHeight - place.top + EDGE }
          : { top: place.bottom + EDGE }),
      }}
    >
      <p>{entry.what}</p>
      {entry.bad && (
        <p className="mt-1.5">
          <span className="font-semibold">Bad when: </span>
          {entry.bad}
        </p>
      )}
    </div>
  );
}
