// How a place in the frame's menu looks; the one that is open has a ground of its own.
export const placeClass =
  "flex h-8 items-center rounded-md px-2 font-medium text-muted hover:bg-sunken hover:text-ink aria-[current=page]:bg-accent-soft aria-[current=page]:text-accent";
