package health

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
)

// The names of the probes, in answers, logs and hints.
const (
	Postgres  = "postgres"
	Clock     = "clock"
	Temporal  = "temporal"
	Worker    = "worker"
	EventLog  = "event_log"
	Blobs     = "blobs"
	Disk      = "disk"
	Redis     = "redis"
	Catalog   = "catalog"
	Models    = "models"
	Telemetry = "telemetry"
	Retention = "retention"
	Certs     = "certificates"
)

// What to do about known problems. Anybody may read these: they hold no addresses and no names of this installation.
const (
	hintPool        = "All connections of this process are taken: raise database.max_conns, or look for slow statements in pg_stat_activity."
	hintBudget      = "The server is nearly out of connections: lower database.max_conns, use fewer workers, or raise max_connections."
	hintStandby     = "This is a standby: point DATABASE_URL to the primary, or promote this one."
	hintReadOnly    = "The database refuses writes: look for default_transaction_read_only, and for a full disk that made somebody set it."
	hintNewerSchema = "A newer release has migrated the database: update this process."
	hintOlderSchema = "The schema is older than this release's, as after a restored backup: restart a worker, which migrates it."
	hintNoSchema    = "The tables are not there: is it the right database? A worker that starts makes them."
	hintClock       = "This machine's clock and the database's differ: check NTP on both; leases and expiries go wrong."

	hintNamespace  = "The namespace is not there: create it with temporal operator namespace create, or set temporal.namespace."
	hintAttributes = "Turns run, but cannot be searched for in Temporal: run starter setup once."
	hintRetention  = "Closed turns leave Temporal within a day: raise it with temporal operator namespace update --retention 168h."
	hintNoWorker   = "Start a worker; one that runs polls another queue or namespace: compare temporal.task_queue and temporal.namespace."
	hintBacklog    = "Turns wait for workers: start more of them, or look in the log for what keeps these busy."
	hintNoCurrent  = "No version of the workers' deployment is current: temporal worker deployment set-current-version."
	hintUnserved   = "Turns go to a version that no worker runs: start its workers, or move on: temporal worker deployment set-current-version."

	hintListening = "Answers come a moment later, by polling, until it listens again: a pooler in transaction mode cannot LISTEN; go round it."
	hintBlobs     = "Check storage.blob_url and its credentials: this process must be able to write, read and delete there."
	hintDiskFull  = "Make room: the content store and local state are on this disk; storage.collect_after says when unused content goes."
	hintRedis     = "Jobs wait, everything else runs: check jobs.redis_url, and that Redis is up."
	hintReplica   = "This Redis is a replica and refuses writes: point jobs.redis_url to the primary."

	hintCatalog   = "The last good state is served: starter catalog status names each document and line; mend it and apply again."
	hintBehind    = "Newer documents are stored than are served: the log says why; a restart reads them anew."
	hintAgents    = "These agents cannot run: starter agents list says why; mend the document that is named."
	hintNoDefault = "Requests that name no agent and match no rule are refused: give a RouteTable a default_agent."

	hintModelKey    = "Set the variable that is named, or the file of the auth profile, for every worker, and restart them."
	hintModelDenied = "The provider refuses the key: renew it; starter doctor --model tries it out."
	hintModelQuota  = "The provider limits the rate: wait, raise the quota, or give the agent a fallback model."
	hintModelDown   = "The provider does not answer: see its status page and this machine's way out; a fallback model would have gone on."
	hintModelOther  = "starter doctor --model shows what the provider answers; the log has each failed call."

	hintTelemetry = "Turns run, but are not seen: check the address and the headers of the OTLP endpoint."
	hintSchedule  = "Old data is kept for longer than it should be: look at the schedule in the Temporal Web UI; unpause it, or see its last run."
	hintCerts     = "Replace the certificate and its key in place: they are read anew without a restart."

	hintRefused  = "Nothing listens at that address: is it up, and are host and port right?"
	hintNoHost   = "The name cannot be resolved: check the address for a slip, and this machine's DNS."
	hintLogin    = "It refuses the credentials: check user, password or key."
	hintDatabase = "There is no such database: create it, or correct the name at the end of DATABASE_URL."
	hintTooMany  = "The server takes no more connections: lower database.max_conns or raise max_connections."
	hintStarting = "It is starting or stopping: wait; if that takes minutes, its own log says why."
	hintTLS      = "The certificate is not trusted or does not name this host: check the CA that is configured, and the host name."
	hintTimeout  = "It does not answer in time: it is overloaded or hangs, or a firewall drops the packets."
	hintFull     = "Its disk is full: make room."
	hintRights   = "This process may not: check the owner and the mode of the files, or the grants of the user."
	hintMissing  = "It is not there: check the path or the name in the configuration."
	hintUnknown  = "The detail and the log have more; docs/start/health.md goes through the dependencies one by one."
)

// knownErrors has hints for errors of any probe. The first match counts.
//
//nolint:gochecknoglobals // a constant in all but syntax
var knownErrors = []struct {
	matches func(error) bool
	hint    string
}{
	{sqlStates("28"), hintLogin},
	{sqlStates("3D000"), hintDatabase},
	{sqlStates("53300"), hintTooMany},
	{sqlStates("57P03", "57P01", "57P02"), hintStarting},
	{sqlStates("53100"), hintFull},
	{sqlStates("25006"), hintReadOnly},
	{sqlStates("42P01"), hintNoSchema},
	{sqlStates("42501"), hintRights},
	{isMissingNamespace, hintNamespace},
	{isUnresolved, hintNoHost},
	{isAnyOf(syscall.ECONNREFUSED), hintRefused},
	{isUntrusted, hintTLS},
	{isAnyOf(syscall.ENOSPC, syscall.EDQUOT), hintFull},
	{isAnyOf(syscall.EROFS, fs.ErrPermission), hintRights},
	{hasCode(codes.Unauthenticated, codes.PermissionDenied), hintLogin},
	{contains("WRONGPASS", "NOAUTH", "NOPERM"), hintLogin},
	{contains("connection refused"), hintRefused}, // gRPC keeps the text and drops the error
	{contains("no such host"), hintNoHost},
	{contains("certificate", "tls: "), hintTLS},
	{isTimeout, hintTimeout},
	{isAnyOf(io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET), hintStarting},
	{isAnyOf(fs.ErrNotExist), hintMissing},
}

// probeHints has hints for probes, whatever the error.
//
//nolint:gochecknoglobals // a constant in all but syntax
var probeHints = map[string]string{Blobs: hintBlobs, Redis: hintRedis, Telemetry: hintTelemetry}

// hintOf returns what to do about an error of a probe: one line, never empty.
func hintOf(probe string, err error) string {
	for i := range knownErrors {
		if knownErrors[i].matches(err) {
			return joinHints(probeHints[probe], knownErrors[i].hint)
		}
	}
	return joinHints(probeHints[probe], hintUnknown)
}

// joinHints returns the hint for the error, followed by that for the probe.
func joinHints(probeHint, errorHint string) string {
	switch {
	case probeHint == "":
		return errorHint
	case errorHint == hintUnknown:
		return probeHint
	default:
		return errorHint + " " + probeHint
	}
}

// sqlStates matches errors of PostgreSQL by their SQLSTATE or its class.
func sqlStates(prefixes ...string) func(error) bool {
	return func(err error) bool {
		var e interface{ SQLState() string }
		if !errors.As(err, &e) {
			return false
		}
		for _, p := range prefixes {
			if strings.HasPrefix(e.SQLState(), p) {
				return true
			}
		}
		return false
	}
}

func isAnyOf(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
}

func contains(words ...string) func(error) bool {
	return func(err error) bool {
		for _, w := range words {
			if strings.Contains(err.Error(), w) {
				return true
			}
		}
		return false
	}
}

func hasCode(want ...codes.Code) func(error) bool {
	return func(err error) bool {
		s, ok := status.FromError(err)
		if denied := new(serviceerror.PermissionDenied); errors.As(err, &denied) {
			return true
		}
		for _, c := range want {
			if ok && s.Code() == c {
				return true
			}
		}
		return false
	}
}

func isMissingNamespace(err error) bool {
	_, ok := errors.AsType[*serviceerror.NamespaceNotFound](err)
	return ok
}

func isUnresolved(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && !e.IsTimeout
}

func isUntrusted(err error) bool {
	return errors.As(err, new(x509.UnknownAuthorityError)) || errors.As(err, new(x509.HostnameError)) || errors.As(err, new(x509.CertificateInvalidError))
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || agent.CodeOf(err) == agent.CodeUnavailable && errors.As(err, &timeout) && timeout.Timeout() ||
		errors.As(err, &timeout) && timeout.Timeout() || hasCode(codes.DeadlineExceeded)(err)
}
