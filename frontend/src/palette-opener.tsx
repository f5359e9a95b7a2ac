// The button and the keys that open the command palette, whose code is loaded with its first use.
import { lazy, Suspense, useEffect, useState } from "react";
import type { Account } from "./api/types";

const CommandPalette = lazy(async () => ({
  default: (await import("./features/palette/command-palette")).CommandPalette,
}));
const isApple = /Mac|iPhone|iPad/.test(navigator.userAgent);

export function PaletteOpener({
  account,
  pages,
}: {
  account: Account;
  pages: readonly { to: string; label: string }[];
}) {
  const [open, setOpen] = useState(false);
  const [wasOpen, setWasOpen] = useState(false);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (
        event.key.toLowerCase() !== "k" ||
        event.altKey ||
        event.shiftKey ||
        !(event.ctrlKey || event.metaKey)
      )
        return;
      // A dialog that is open has the keyboard: what it shows once must not be lost behind another.
      if (document.querySelector("[role=alertdialog], [role=dialog]:not(:has([cmdk-root]))"))
        return;
      event.preventDefault();
      setWasOpen(true);
      setOpen((before) => !before);
    };
    window.addEventListener("keydown", pressed);
    return () => {
      window.removeEventListener("keydown", pressed);
    };
  }, []);
  return (
    <>
      <button
        type="button"
        aria-haspopup="dialog"
        aria-keyshortcuts={isApple ? "Meta+K" : "Control+K"}
        className="flex h-8 items-center gap-2 rounded-md px-2 whitespace-nowrap text-muted hover:bg-sunken hover:text-ink"
        onClick={() => {
          setWasOpen(true);
          setOpen(true);
        }}
      >
        Go to
        <kbd
          aria-hidden
          className="rounded border border-line px-1 font-sans text-xs max-sm:hidden"
        >
          {isApple ? "⌘K" : "Ctrl K"}
        </kbd>
      </button>
      {wasOpen && (
        <Suspense>
          <CommandPalette account={account} pages={pages} open={open} onOpenChange={setOpen} />
        </Suspense>
      )}
    </>
  );
}
