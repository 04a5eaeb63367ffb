package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// RetentionType is the name of the workflow that removes data whose retention time is over.
const RetentionType = "Retention"

// retentionID is the id of Retention's schedule. Temporal appends the time of a run to it to get the run's workflow id.
const retentionID = "turnstone-retention"

// RetentionID returns the schedule's id for a task queue. Installations that share a namespace have task queues of their own.
func RetentionID(queue string) string {
	if queue == TaskQueue {
		return retentionID
	}
	return retentionID + "/" + queue
}

const (
	// sweepTimeout bounds one attempt of a sweep, which works for 2 minutes at most. sweepTotal bounds all its attempts while the store cannot be
	// reached; the next run tries again.
	sweepTimeout = 10 * time.Minute
	sweepTotal   = time.Hour
	// sweepHeartbeat is the heartbeat timeout of a sweep. It heartbeats after each transaction, whose statements may take 30 s.
	sweepHeartbeat = time.Minute
	// maxSweeps bounds the sweeps of one kind of data of one tenant within a run.
	maxSweeps = 100
	// maxKinds is the maximum number of entries in RetentionResult.Kinds.
	maxKinds = 200
)

// retentionActs names the activities of Retention.
var retentionActs *activities.Retention //nolint:gochecknoglobals // always nil: it only names methods

// RetentionCarry is the state that a run passes on when it continues as new.
type RetentionCarry struct {
	After  string          `json:"after"` // the last tenant that was swept
	Result RetentionResult `json:"result"`
}

// RetentionResult is what a run removed.
type RetentionResult struct {
	Removed int64            `json:"removed"` // rows and objects
	Bytes   int64            `json:"bytes"`   // of them, where they are known
	Failed  int              `json:"failed"`  // sweeps that were given up: the next run tries again
	Kinds   []RetentionSwept `json:"kinds"`   // sweeps that removed anything or failed, at most 200
	Omitted int              `json:"omitted"` // such sweeps beyond those 200
}

// RetentionSwept is what was removed of one kind of one tenant.
type RetentionSwept struct {
	Tenant     string     `json:"tenant"` // empty: data of no tenant
	Kind       string     `json:"kind"`
	Removed    int64      `json:"removed"`
	Bytes      int64      `json:"bytes,omitempty"`
	OldestLeft *time.Time `json:"oldest_left,omitempty"`
	Error      string     `json:"error,omitempty"`
}

// Retention removes the data of tenants that is older than their policies allow, kind by kind, and then the content without a reference. A failed
// sweep does not stop the others. carry is set only after continue-as-new.
func Retention(ctx workflow.Context, carry *RetentionCarry) (RetentionResult, error) {
	r := &retentionRun{}
	r.out.Kinds = []RetentionSwept{}
	after := ""
	if carry != nil {
		after, r.out = carry.After, carry.Result
	}
	for {
		next, err := r.sweepPage(ctx, after)
		if err != nil {
			return r.out, err
		}
		if next == "" {
			break
		}
		after = next
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return r.out, workflow.NewContinueAsNewError(ctx, RetentionType, &RetentionCarry{After: after, Result: r.out})
		}
	}
	if err := r.collect(ctx); err != nil {
		return r.out, err
	}
	r.show(ctx, "is done")
	return r.out, nil
}

// retentionRun is the state of a run of Retention.
type retentionRun struct {
	out RetentionResult
}

// sweepPage sweeps the next page of tenants and returns the last one of it, "" after the last page.
func (r *retentionRun) sweepPage(ctx workflow.Context, after string) (next string, err error) {
	r.show(ctx, "looks for what is due")
	var due retention.ListDueResult
	opts := sweepOptions(ctx, storeTimeout, "what is due")
	if err := workflow.ExecuteActivity(opts, retentionActs.ListRetention, retention.ListDueInput{After: after}).Get(ctx, &due); err != nil {
		return "", err
	}
	for _, s := range due.Due {
		if err := r.sweep(ctx, s); err != nil {
			return "", err
		}
	}
	return due.Next, nil
}

// sweep removes one kind of one tenant.
func (r *retentionRun) sweep(ctx workflow.Context, s retention.Sweep) error {
	done := RetentionSwept{Tenant: s.Tenant, Kind: s.Kind}
	in := retention.SweepInput{Sweep: s}
	r.show(ctx, "sweeps "+tenantLabel(s.Tenant)+" "+s.Kind)
	for range maxSweeps {
		var part retention.SweepResult
		opts := sweepOptions(ctx, sweepTimeout, s.Kind+" of "+tenantLabel(s.Tenant))
		if err := workflow.ExecuteActivity(opts, retentionActs.SweepRetention, in).Get(ctx, &part); err != nil {
			return r.recordFailure(ctx, done, err)
		}
		done.Removed, done.Bytes, done.OldestLeft = done.Removed+part.Removed, done.Bytes+part.Bytes, part.OldestLeft
		if part.Next == nil {
			break
		}
		in.From = *part.Next
	}
	r.add(done)
	return nil
}

// collect removes content without a reference.
func (r *retentionRun) collect(ctx workflow.Context) error {
	done := RetentionSwept{Kind: "content"}
	r.show(ctx, "removes content without a reference")
	var part retention.SweepResult
	if err := workflow.ExecuteActivity(sweepOptions(ctx, sweepTimeout, "collect content"), retentionActs.CollectRetention).Get(ctx, &part); err != nil {
		return r.recordFailure(ctx, done, err)
	}
	done.Removed, done.Bytes = part.Removed, part.Bytes
	r.add(done)
	return nil
}

// recordFailure records a sweep that failed for good. A cancel ends the run.
func (r *retentionRun) recordFailure(ctx workflow.Context, done RetentionSwept, err error) error {
	if temporal.IsCanceledError(err) || ctx.Err() != nil {
		return err
	}
	done.Error = shortMessage(internalFailure(err).Message)
	r.out.Failed++
	r.add(done)
	workflow.GetLogger(ctx).Warn("retention: a sweep was given up", "tenant", done.Tenant, "kind", done.Kind, "error", err)
	return nil
}

// add adds a sweep to the result.
func (r *retentionRun) add(done RetentionSwept) {
	r.out.Removed, r.out.Bytes = r.out.Removed+done.Removed, r.out.Bytes+done.Bytes
	switch {
	case done.Removed == 0 && done.Error == "":
	case len(r.out.Kinds) < maxKinds:
		r.out.Kinds = append(r.out.Kinds, done)
	default:
		r.out.Omitted++
	}
}

// show writes to the Web UI what the run is doing. It costs no history.
func (r *retentionRun) show(ctx workflow.Context, what string) {
	var b strings.Builder
	fmt.Fprintf(&b, "Retention %s: %d removed", what, r.out.Removed)
	if r.out.Failed > 0 {
		fmt.Fprintf(&b, ", %d given up", r.out.Failed)
	}
	if len(r.out.Kinds) > 0 {
		b.WriteString("\n\n| tenant | kind | removed |\n|---|---|---|\n")
	}
	for _, k := range r.out.Kinds[max(0, len(r.out.Kinds)-20):] {
		fmt.Fprintf(&b, "| %s | %s | %d |\n", tenantLabel(k.Tenant), k.Kind, k.Removed)
	}
	workflow.SetCurrentDetails(ctx, b.String())
}

func tenantLabel(tenant string) string {
	if tenant == "" {
		return "no tenant"
	}
	return tenant
}

// shortMessage bounds an error message for a result; the log has all of it.
func shortMessage(text string) string {
	const most = 300 // bytes
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func sweepOptions(ctx workflow.Context, attempt time.Duration, summary string) workflow.Context {
	o := workflow.ActivityOptions{
		StartToCloseTimeout: attempt, ScheduleToCloseTimeout: sweepTotal, RetryPolicy: retryWithoutLimit(), Summary: summary,
	}
	if attempt > storeTimeout {
		o.HeartbeatTimeout = sweepHeartbeat
	}
	return workflow.WithActivityOptions(ctx, o)
}
