// Text nodes that a browser's translation has wrapped in a <font> of its own, or put one in the place of.
//
// React goes on with the node that it made. To take it out, or to put another before it, throws, as it is no longer a
// child of its element; and a new value is not seen where the node is no longer in the page. Here what stands for such a
// node is changed in its place, and a text that gets a new value comes back, to be translated again.

/** What was put in the place of a text. */
const places = new WeakMap<Node, Element>();

/** Once, before React starts. `page`: the page whose texts are watched. */
export function allowForeignText(page: Document): void {
  const { removeChild, insertBefore } = Node.prototype;
  Node.prototype.removeChild = function <T extends Node>(this: Node, child: T): T {
    if (child.parentNode === this) return removeChild.call(this, child) as T;
    const place = placeIn(this, child);
    if (place) removeChild.call(this, place);
    return child;
  };
  Node.prototype.insertBefore = function <T extends Node>(
    this: Node,
    added: T,
    before: Node | null,
  ): T {
    const place = before && before.parentNode !== this ? placeIn(this, before) : before;
    return insertBefore.call(this, added, place) as T;
  };
  const observer = new MutationObserver((records) => {
    for (const record of records) {
      if (record.type === "characterData") comeBack(record.target);
      else
        for (const node of record.removedNodes)
          if (node.nodeType === Node.TEXT_NODE && !node.isConnected) watch(node, record, observer);
    }
  });
  observer.observe(page, { childList: true, subtree: true });
}

/** The child of `parent` that a node is within, or that stands for it; null where there is none. */
function placeIn(parent: Node, node: Node): Node | null {
  let at: Node | null = node.isConnected ? node : (places.get(node) ?? null);
  while (at && at.parentNode !== parent) at = at.parentNode;
  return at;
}

/** A text has left the page: if a <font> came in its place, that is its translation. */
function watch(
  text: Node,
  { addedNodes, previousSibling, nextSibling }: MutationRecord,
  observer: MutationObserver,
): void {
  const font = [...addedNodes, previousSibling, nextSibling].find(
    (node) => node?.nodeName === "FONT",
  );
  if (!font) return;
  places.set(text, font as Element);
  observer.observe(text, { characterData: true });
}

/** Its value has changed: the translation is of what it was. */
function comeBack(text: Node): void {
  if (text.isConnected) return;
  const font = places.get(text);
  places.delete(text);
  if (font?.isConnected) font.replaceWith(text);
}
