// The menu of places, which stands behind a button where the window is narrow, and how a place in it looks.
import { useState, type ReactNode } from "react";
import { useLocation } from "react-router";
import { Button } from "./ui/button";

/** The button, and the class of what has the id "places", which it opens. */
export function useMenu(): { button: ReactNode; folded: string } {
  const { key } = useLocation();
  const [openAt, setOpenAt] = useState(""); // a menu that was opened closes with the next choice, also of the page that is shown
  const isOpen = openAt === key;
  return {
    button: (
      <Button
        look="quiet"
        className="shrink-0 lg:hidden"
        aria-expanded={isOpen}
        aria-controls="places"
        onClick={() => {
          setOpenAt(isOpen ? "" : key);
        }}
      >
        Menu
      </Button>
    ),
    folded: isOpen ? "" : "max-lg:hidden",
  };
}

export const placeClass =
  "flex h-8 items-center rounded-md px-2 font-medium text-muted hover:bg-sunken hover:text-ink aria-[current=page]:bg-accent-soft aria-[current=page]:text-accent";
