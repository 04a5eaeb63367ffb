package turnstone

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnstone-run/turnstone/internal/access"
	"github.com/turnstone-run/turnstone/internal/access/credentials"
	"github.com/turnstone-run/turnstone/internal/admission"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/audit"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// The adapters of authentication, audit and admission satisfy their ports.
var (
	_ credentials.KeyStore = (*postgres.KeyStore)(nil)
	_ audit.Store          = (*postgres.AuditStore)(nil)
	_ admission.Store      = (*postgres.AdmissionStore)(nil)
	_ gateway.Keys         = (*credentials.Keys)(nil)
	_ gateway.Audit        = (*audit.Trail)(nil)
)

// callers authenticates callers and keeps the audit trail. Its zero value allows everybody everything.
type callers struct {
	auth  access.Authenticator // nil: no authentication is configured
	keys  *credentials.Keys    // nil: no API keys
	trail *audit.Trail
}

// openCallers opens the authentication that the settings configure, and the audit trail.
func (s *Service) openCallers(context.Context, context.Context) (err error) {
	if s.callers.trail, err = audit.New(audit.Config{
		Store: s.store.AuditStore, Logger: s.logger.Named("audit"), Keep: s.keepHere(s.cfg.Settings.Gateway.AuditKeep),
	}); err != nil {
		return err
	}
	set := &s.cfg.Settings.Auth
	if !set.On() {
		return nil
	}
	cfg := access.Config{OperatorKey: set.OperatorKey.Reveal()}
	if set.Keys {
		if s.callers.keys, err = credentials.NewKeys(credentials.KeysConfig{Store: s.store.KeyStore, Logger: s.logger.Named("keys")}); err != nil {
			return fmt.Errorf("auth.keys: %w", err)
		}
		cfg.Keys = s.callers.keys
	}
	if len(set.Issuers) > 0 {
		issuers := make([]credentials.Issuer, len(set.Issuers))
		for i := range set.Issuers {
			issuers[i] = credentials.Issuer(set.Issuers[i])
		}
		if cfg.Tokens, err = credentials.NewTokens(credentials.TokensConfig{Issuers: issuers, Logger: s.logger.Named("tokens")}); err != nil {
			return fmt.Errorf("auth.issuers: %w", err)
		}
	}
	if len(set.Certificates) > 0 {
		clients := make([]credentials.CertificateHolder, len(set.Certificates))
		for i := range set.Certificates {
			clients[i] = credentials.CertificateHolder(set.Certificates[i])
		}
		if cfg.Certificates, err = credentials.NewCertificates(clients); err != nil {
			return fmt.Errorf("auth.certificates: %w", err)
		}
	}
	s.callers.auth, err = access.New(cfg)
	return err
}

// close stores pending audit records and uses of keys.
func (c *callers) close(ctx context.Context) error {
	var faults []error
	if c.keys != nil {
		faults = append(faults, c.keys.Close(ctx))
	}
	if c.trail != nil {
		faults = append(faults, c.trail.Close(ctx))
	}
	*c = callers{}
	return errors.Join(faults...)
}

// addTo adds the authentication, the keys and the audit trail to the gateway's configuration.
func (c *callers) addTo(cfg *gateway.Config) {
	cfg.Auth = c.auth
	if c.keys != nil {
		cfg.Keys = c.keys
	}
	if c.trail != nil {
		cfg.Audit = c.trail
	}
}

// addServerTLS adds the certificates of the servers to the gateway's configuration.
func (s *Service) addServerTLS(cfg *gateway.Config) (err error) {
	set := s.cfg.Settings
	if set.HTTP.TLSCert != "" {
		if cfg.HTTPTLS, err = credentials.ServerTLS(credentials.TLSFiles{Cert: set.HTTP.TLSCert, Key: set.HTTP.TLSKey}, s.logger); err != nil {
			return fmt.Errorf("http.tls_cert: %w", err)
		}
	}
	if set.GRPC.TLSCert != "" {
		files := credentials.TLSFiles{Cert: set.GRPC.TLSCert, Key: set.GRPC.TLSKey, ClientCA: set.GRPC.ClientCA, Require: onlyCertificates(&set.Auth)}
		if cfg.GRPCTLS, err = credentials.ServerTLS(files, s.logger); err != nil {
			return fmt.Errorf("grpc.tls_cert: %w", err)
		}
	}
	return nil
}

// onlyCertificates reports whether certificates are the only credentials.
func onlyCertificates(a *app.Auth) bool {
	return len(a.Certificates) > 0 && !a.Keys && a.OperatorKey == "" && len(a.Issuers) == 0
}

// newGate returns the admission of turns, with the configured bounds of tenants, users and agents.
func (s *Service) newGate() (*admission.Gate, error) {
	set := &s.cfg.Settings.Limits
	cfg := admission.Config{
		Store: s.store.AdmissionStore, End: s.turns.EndOrphan, Logger: s.logger.Named("admission"), Tenants: map[string]admission.TenantBounds{},
		Defaults: admission.Bounds{Tenant: set.Tenant.Of(), User: set.User.Of(), Agent: set.Agent.Of()},
	}
	for _, t := range set.Tenants {
		cfg.Tenants[t.Name] = admission.TenantBounds{Tenant: t.Tenant.Of(), User: t.User.Of()}
	}
	return admission.New(cfg)
}
