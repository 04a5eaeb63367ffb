package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/audit"
)

// memory is a store in memory that can fail or hang.
type memory struct {
	mu      sync.Mutex
	err     error // of AppendAudit
	hangs   bool
	records []agent.AuditRecord
	batches []int       // sizes of the batches
	expired []time.Time // times of the calls of ExpireAudit
	old     int         // number of records that ExpireAudit removes
}

func (m *memory) AppendAudit(ctx context.Context, records []agent.AuditRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hangs {
		m.mu.Unlock()
		<-ctx.Done()
		m.mu.Lock()
		return ctx.Err()
	}
	if m.err != nil {
		return m.err
	}
	m.records = append(m.records, records...)
	m.batches = append(m.batches, len(records))
	return nil
}

func (m *memory) ListAudit(context.Context, agent.AuditQuery) (agent.AuditPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return agent.AuditPage{Records: m.records}, nil
}

func (m *memory) ExpireAudit(_ context.Context, before time.Time, limit int) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expired = append(m.expired, before)
	n := min(m.old, limit)
	m.old -= n
	return n, nil
}

func (m *memory) setError(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memory) stored() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.records)
}

func TestRecordsAreStoredInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		trail, err := audit.New(audit.Config{Store: m})
		require.NoError(t, err)
		for range 450 {
			trail.Record(agent.AuditRecord{Action: agent.ActionTurnsRun, Tenant: "acme"})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 450, m.stored())
		require.Equal(t, []int{200, 200, 50}, m.batches)
		require.False(t, m.records[0].At.IsZero())
		page, err := trail.List(t.Context(), agent.AuditQuery{})
		require.NoError(t, err)
		require.Len(t, page.Records, 450)
		trail.Record(agent.AuditRecord{Action: agent.ActionTurnsRun})
		require.NoError(t, trail.Close(t.Context()))
		require.Equal(t, 451, m.stored(), "Close stores what is queued")
		require.NoError(t, trail.Close(t.Context()), "twice")
	})
}

func TestUnavailableStoreDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{err: errors.New("unavailable")}
		trail, err := audit.New(audit.Config{Store: m, Queue: 10, Batch: 5})
		require.NoError(t, err)
		for range 5 {
			trail.Record(agent.AuditRecord{Action: agent.ActionTurnsRun})
		}
		synctest.Wait() // the first batch is being stored
		for range 1000 {
			trail.Record(agent.AuditRecord{Action: agent.ActionTurnsRead})
		}
		require.Zero(t, m.stored())
		m.setError(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 15, m.stored(), "the first batch and a full queue")
		require.NoError(t, trail.Close(t.Context()), "the number of dropped records was logged before")
	})
}

func TestInvalidRecordsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{err: agent.Invalid("detail", "no")}
		trail, err := audit.New(audit.Config{Store: m, Batch: 1})
		require.NoError(t, err)
		trail.Record(agent.AuditRecord{})
		synctest.Wait()
		m.setError(nil)
		trail.Record(agent.AuditRecord{Action: agent.ActionKeysRead})
		synctest.Wait()
		require.Equal(t, 1, m.stored())
		require.ErrorContains(t, trail.Close(t.Context()), "1 audit records")
	})
}

func TestCloseTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, m := range []*memory{{err: errors.New("unavailable")}, {hangs: true}} {
			trail, err := audit.New(audit.Config{Store: m})
			require.NoError(t, err)
			for range 3 {
				trail.Record(agent.AuditRecord{})
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			start := time.Now()
			require.ErrorContains(t, trail.Close(ctx), "3 audit records were not stored")
			require.LessOrEqual(t, time.Since(start), 4*time.Second)
			cancel()
			trail.Record(agent.AuditRecord{}) // must not panic
		}
	})
}

func TestOldRecordsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{old: 12_000}
		trail, err := audit.New(audit.Config{Store: m, Keep: 24 * time.Hour})
		require.NoError(t, err)
		start := time.Now()
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		require.Zero(t, m.old)
		require.Len(t, m.expired, 3)
		require.Equal(t, start.Add(time.Hour-24*time.Hour), m.expired[0])
		require.NoError(t, trail.Close(t.Context()))

		kept := &memory{old: 5}
		trail, err = audit.New(audit.Config{Store: kept})
		require.NoError(t, err)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		require.Empty(t, kept.expired, "0 keeps everything")
		require.NoError(t, trail.Close(t.Context()))
	})
}

func TestRecordLimits(t *testing.T) {
	m := &memory{}
	trail, err := audit.New(audit.Config{Store: m})
	require.NoError(t, err)
	trail.Record(agent.AuditRecord{Resource: strings.Repeat("x", 10_000), Subject: "a\x00\xff", Detail: json.RawMessage(`"` + strings.Repeat("x", 10_000) + `"`)})
	require.NoError(t, trail.Close(t.Context()))
	require.Len(t, m.records[0].Resource, 512)
	require.Equal(t, "a��", m.records[0].Subject)
	require.JSONEq(t, `{"truncated":true}`, string(m.records[0].Detail))
	_, err = audit.New(audit.Config{})
	require.ErrorContains(t, err, "store is missing")
}
