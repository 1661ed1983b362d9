module github.com/weir-go/weir/jobs/outbox

go 1.26.0

require github.com/jackc/pgx/v5 v5.12.0
