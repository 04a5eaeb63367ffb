package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// MigratedDatabase is postgrestest.New, which tests within this package cannot import.
var MigratedDatabase func(t testing.TB) string

// Statements for the tests of their plans.
const (
	CountApprovals      = countApprovals
	CountLiveTurns      = countLiveTurns
	ReadTenantsSpending = readTenantsSpending
	ReadDatasets        = readDatasets
	ReadWorkflow        = readWorkflow
	ListRuns            = listRuns
	ReadTurnTools       = readTurnTools
	ReadUses            = readUses
	EvictUses           = evictUses
	EvictSamples        = evictSamples
)

// FindStatements are the statements of lists without filters, with a tenant's first page.
func FindStatements(tenant string) map[string]string {
	values := strings.NewReplacer("$1", "'"+tenant+"'", "$2", "'infinity'::timestamptz", "$3", "''", "$4", strconv.Itoa(maxExamined), "$5", "50")
	return map[string]string{
		"turns": values.Replace(fmt.Sprintf(findTurns, "", "")), "sessions": values.Replace(fmt.Sprintf(findSessions, "", "", "")),
	}
}

// EraseBatch is the number of rows of a kind that one transaction erases.
const EraseBatch = maxErasedRows

// UsageAt is Usage at another time than now, and with another timeout.
func (s *UsageStore) UsageAt(ctx context.Context, q agent.UsageQuery, at time.Time, timeout time.Duration) (agent.UsagePage, error) {
	return s.usageAt(ctx, q, at, timeout)
}

// SpendingAt is Spending at another time than now.
func (s *UsageStore) SpendingAt(ctx context.Context, tenant string, at time.Time) (agent.Spending, error) {
	return s.spendingAt(ctx, tenant, at)
}

// TenantsSpendingAt is TenantsSpending at another time than now.
func (s *MetricStore) TenantsSpendingAt(ctx context.Context, at time.Time) ([]TenantSpending, error) {
	return s.tenantsSpendingAt(ctx, at)
}

// FromDailySums reports whether a query is answered from the daily sums.
func FromDailySums(q agent.UsageQuery) bool { return dailyKind(&q) != "" }

// ErasedTables lists the tables in which something is erased, and those in which nothing is, with the reason.
func ErasedTables() (erased []string, spared map[string]string) {
	for _, k := range erasedKinds() {
		erased = append(erased, k.tableName())
	}
	slices.Sort(erased)
	spared = map[string]string{}
	for _, s := range sparedTables() {
		spared[s[0]] = s[1]
	}
	return slices.Compact(erased), spared
}
