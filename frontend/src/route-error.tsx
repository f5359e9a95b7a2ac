// A page whose code did not arrive: no network, or a newer version of the console replaced this one.
import { Button } from "./ui/button";
import { Notice } from "./ui/notice";

export function RouteError() {
  return (
    <div className="mx-auto max-w-lg p-8">
      <Notice tone="bad" title="This page could not be loaded.">
        <p className="mb-3">Check that you are online and that the server runs. If it was just upgraded, reloading is enough.</p>
        <Button
          onClick={() => {
            location.reload();
          }}
        >
          Reload
        </Button>
      </Notice>
    </div>
  );
}
