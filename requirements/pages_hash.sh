# Read by install.sh and release.sh.

# pages_hash FOLDER: of all that the console's pages are built from, in this checkout; the same for the same files.
pages_hash() {
  (cd "$1" && find frontend -type f -not -path '*/node_modules/*' -not -path '*/dist/*' \
    -not -path '*/src/api/schema.ts' -print0 | LC_ALL=C sort -z |
    xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
}
