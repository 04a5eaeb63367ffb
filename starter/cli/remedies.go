package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// The hints of the doctor's own findings. Findings about the server's dependencies have hints from the server.
const (
	remedyStart     = "Nothing listens there. Start a server: go run ./dev, or a worker; or point --server (TURNSTONE_SERVER) to one."
	remedyName      = "The host name is not known: look for a slip in --server (TURNSTONE_SERVER), and at this machine's DNS."
	remedyDNS       = "This machine's DNS does not answer: check its network, or give --server an IP address."
	remedyRoute     = "There is no way to that address: check the network, the VPN, and the address itself."
	remedySlow      = "It accepts connections and does not answer, or a firewall drops the packets: ask /health on the server's own machine."
	remedyProxy     = "The proxy of HTTP_PROXY or HTTPS_PROXY does not let this through: put the server's host into NO_PROXY."
	remedyPlain     = "The server speaks plain HTTP: begin --server with http://, or give the server http.tls_cert."
	remedyTLS       = "The server speaks TLS: begin --server with https://."
	remedyNotHTTP   = "What listens there speaks no HTTP: gRPC (9090), Temporal (7233) and PostgreSQL (5432) have ports of their own; HTTP is 8080 at first."
	remedyUnknownCA = "Nobody that this machine trusts has signed the server's certificate: give --ca the PEM file of who did."
	remedyHostname  = "The certificate is of another name: give --server the name that it is for, or the server a certificate for this one."
	remedyExpired   = "The server's certificate has ended or has not begun: renew it, and compare both clocks."
	remedyHandshake = "TLS cannot be agreed on: a proxy in between, a client certificate that is wanted, or a port that speaks something else."
	remedyClosed    = "It hung up: it may be starting, stopping or crashing; its log says. A port of another protocol does so too."
	remedyForeign   = "Something else listens there: check host, port and path of --server; behind a proxy, the path that it adds."
	remedyGateway   = "A proxy answers, and the server behind it does not: look at the proxy's upstream, and at /health on the server's own machine."
	remedyHost      = "The server does not know that name for itself: add it to http.allowed_hosts, or ask by 127.0.0.1."
	remedyBadKey    = "The credential does not hold, or not any more: starter keys list shows those there are, starter keys create makes one."
	remedyNoKey     = "Give a credential: TURNSTONE_KEY or --key-file; starter keys create makes one."
	remedyRights    = "The credential may not: whoami lists its scopes; have a key made with the one that is named: starter keys create --scope."
	remedyLimited   = "Too many requests: wait, or raise the limits of this tenant."
	remedyOld       = "The server does not know this: it is older than this starter; update it."
	remedyInternal  = "A bug, or something that the server did not expect: its log has it, under the request's id."

	remedyOldStarter   = "Update starter: it may not know what the server answers."
	remedyOldServer    = "Update the server, or use its release of starter: it may not know what it is asked."
	remedyClock        = "Set the clock by NTP: tokens are refused as not yet or no more valid."
	remedyCertificate  = "Renew it: put the new files in place of the old; the server reads them anew."
	remedyDraining     = "Wait until the next one serves; turns go on by themselves."
	remedySilentServer = "An older release keeps that for those who may do health.read: ask with such a key, or update the server."
	remedyNoHint       = "docs/start/health.md goes through the dependencies one by one; the server's log has the error."
	remedyDocument     = "Mend the document at that place; starter catalog validate finds the same offline."
	remedySource       = "starter catalog status has the rest; the last good state is served meanwhile."
	remedyAgent        = "Mend what is named, and look again: starter catalog get agent NAME is what the agent is made of."
	remedyNoAgents     = "Apply some: starter catalog apply catalog/; or act for another tenant: --tenant."
	remedyNoDefault    = "Requests that name no agent are refused: give a RouteTable a default_agent."
	remedyModel        = "docs/reference/models.md says what each check stands for; another model, or the profile's settings, may mend it."
	remedyModelKey     = "Check the key of the profile: the variable or file of its auth, in the environment of every worker."
	remedyUnknown      = "The server's log has more."
)

// remedies are the hints for errors of requests. The first match counts.
//
//nolint:gochecknoglobals // a constant in all but syntax
var remedies = []struct {
	matches func(error) bool
	remedy  string
}{
	{isOneOf(client.ErrScheme), remedyTLS},
	{hasText("proxyconnect", "Proxy Authentication Required"), remedyProxy},
	{hasText("server gave HTTP response to HTTPS client"), remedyPlain},
	{isDNSFailure, remedyDNS},
	{isUnknownHost, remedyName},
	{isOneOf(syscall.ECONNREFUSED), remedyStart},
	{isOneOf(syscall.EHOSTUNREACH, syscall.ENETUNREACH), remedyRoute},
	{isUntrusted, remedyUnknownCA},
	{isWrongHostname, remedyHostname},
	{isExpiredCertificate, remedyExpired},
	{hasText("malformed HTTP", "frame too large", "first record does not look like a TLS handshake", "readLoopPeekFailLocked"), remedyNotHTTP},
	{hasText("tls: "), remedyHandshake},
	{isOneOf(io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE), remedyClosed},
	{hasText("server closed idle connection"), remedyClosed}, // before the request was sent
	{isTimeout, remedySlow},
	{isOneOf(client.ErrForeign), remedyForeign},
	{hasText("names neither this machine's loopback address nor an allowed host"), remedyHost},
	{hasCode(agent.CodeDenied), remedyRights},
	{hasCode(agent.CodeRateLimited), remedyLimited},
	{hasText("502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"), remedyGateway},
	{hasCode(agent.CodeNotFound), remedyOld},
	{hasCode(agent.CodeInternal), remedyInternal},
}

// remedy returns what to do about an error, in one line.
func (a *app) remedy(err error) string {
	if agent.CodeOf(err) == agent.CodeUnauthenticated {
		if a.key == "" && a.keyFile == "" {
			return remedyNoKey
		}
		return remedyBadKey
	}
	for i := range remedies {
		if remedies[i].matches(err) {
			return remedies[i].remedy
		}
	}
	return remedyUnknown
}

// modelRemedy returns what to do about a failed check of a model.
func modelRemedy(check *client.Check) string {
	if hasText("401", "403", "key", "unauthenticated", "denied")(errors.New(check.Detail)) {
		return remedyModelKey
	}
	return remedyModel
}

func isOneOf(targets ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
}

func hasText(texts ...string) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(err.Error(), text) })
	}
}

func hasCode(code agent.Code) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*agent.Error](err)
		return ok && e.Code == code
	}
}

// isDNSFailure reports whether the DNS did not answer.
func isDNSFailure(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && (e.IsTimeout || e.IsTemporary && !e.IsNotFound)
}

func isUnknownHost(err error) bool {
	_, ok := errors.AsType[*net.DNSError](err)
	return ok && !isDNSFailure(err)
}

func isUntrusted(err error) bool { return errors.As(err, new(x509.UnknownAuthorityError)) }

func isWrongHostname(err error) bool { return errors.As(err, new(x509.HostnameError)) }

func isExpiredCertificate(err error) bool {
	e, ok := errors.AsType[x509.CertificateInvalidError](err)
	return ok && e.Reason == x509.Expired
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout() || errors.Is(err, context.DeadlineExceeded)
}
