#!/bin/sh
# nsys-seeds.sh FOLDER: seeds for nsys_export, the first rows of each recorded trace in pages of 512 bytes, so that a changed byte
# is likely to change a row. Run from the root of the repository; needs zstd and sqlite3.
set -eu
seeds=$1
mkdir -p "$seeds"
whole=$(mktemp -d)
trap 'rm -rf "$whole"' EXIT
for fixture in fixtures/nsys/*.sqlite.zst; do
    name=$(basename "$fixture" .sqlite.zst)
    zstd -qdcf "$fixture" >"$whole/$name"
    rm -f "$seeds/$name"
    tables=$(sqlite3 "$whole/$name" "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'ENUM%'
        AND name NOT IN ('StringIds', 'META_DATA_CAPTURE', 'META_DATA_EXPORT', 'ThreadNames', 'PROCESSES', 'DIAGNOSTIC_EVENT')")
    {
        echo "PRAGMA page_size = 512; ATTACH '$whole/$name' AS whole; BEGIN;"
        echo "CREATE TABLE META_DATA_EXPORT AS SELECT * FROM whole.META_DATA_EXPORT WHERE name LIKE 'EXPORT_SCHEMA%';"
        echo "CREATE TABLE ThreadNames AS SELECT * FROM whole.ThreadNames LIMIT 4;"
        for table in $tables; do
            case $table in
            *RUNTIME) some='WHERE correlationId IN (SELECT correlationId FROM whole.CUPTI_ACTIVITY_KIND_KERNEL LIMIT 12) LIMIT 30' ;;
            NVTX_EVENTS) some='ORDER BY eventType = 75 DESC, end - start DESC LIMIT 30' ;;
            *) some='LIMIT 12' ;;
            esac
            echo "CREATE TABLE $table AS SELECT * FROM whole.$table $some;"
        done
        echo "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
        echo "INSERT INTO StringIds SELECT id, substr(value, 1, 60) FROM whole.StringIds LIMIT 60;"
        echo "COMMIT;"
    } | sqlite3 "$seeds/$name"
done
