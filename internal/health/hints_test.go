package health_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/internal/health"
)

type sqlState string

func (s sqlState) Error() string    { return "ERROR (SQLSTATE " + string(s) + ")" }
func (s sqlState) SQLState() string { return string(s) }

// Every failure that is known has its hint, whatever it is wrapped in. What no server of a test gives is made up here.
func TestHints(t *testing.T) {
	for text, errs := range map[string][]error{
		"Nothing listens":             {syscall.ECONNREFUSED, status.Error(codes.Unavailable, `connection error: desc = "transport: dial tcp 10.0.0.1:7233: connect: connection refused"`)},
		"cannot be resolved":          {&net.DNSError{Err: "no such host", IsNotFound: true}, status.Error(codes.Unavailable, "name resolver error: produced zero addresses: lookup x: no such host")},
		"refuses the credentials":     {sqlState("28P01"), sqlState("28000"), status.Error(codes.Unauthenticated, "x"), serviceerror.NewPermissionDenied("x", ""), errors.New("WRONGPASS invalid username-password pair")},
		"There is no such database":   {sqlState("3D000")},
		"takes no more connections":   {sqlState("53300")},
		"starting or stopping":        {sqlState("57P03"), sqlState("57P01"), io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET},
		"Its disk is full":            {sqlState("53100"), syscall.ENOSPC, &fs.PathError{Op: "write", Path: "/x", Err: syscall.EDQUOT}},
		"The database refuses writes": {sqlState("25006")},
		"The tables are not there":    {sqlState("42P01")},
		"grants of the user":          {sqlState("42501"), fs.ErrPermission, syscall.EROFS, syscall.EACCES},
		"namespace create":            {serviceerror.NewNamespaceNotFound("x")},
		"certificate is not trusted":  {x509.UnknownAuthorityError{}, x509.HostnameError{Certificate: &x509.Certificate{}}, x509.CertificateInvalidError{Reason: x509.Expired}, status.Error(codes.Unavailable, "tls: first record does not look like a TLS handshake")},
		"does not answer in time":     {context.DeadlineExceeded, status.Error(codes.DeadlineExceeded, "x"), &net.DNSError{Err: "i/o timeout", IsTimeout: true}},
		"check the path":              {fs.ErrNotExist},
		"docs/start/health.md":        {errors.New("never seen before")},
	} {
		for _, err := range errs {
			require.Contains(t, health.HintOf(health.Postgres, fmt.Errorf("wrapped: %w", err)), text, "%v", err)
			hint := health.HintOf(health.Redis, err)
			require.Contains(t, hint, "jobs.redis_url", "what the dependency is comes besides")
			require.NotContains(t, hint, "\n")
			require.Less(t, len(hint), 300)
			require.True(t, strings.HasSuffix(hint, "."), hint)
		}
	}
}
