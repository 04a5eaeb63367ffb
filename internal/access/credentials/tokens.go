package credentials

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// Issuer is an OpenID Connect provider. Claims are named by dotted paths.
type Issuer struct {
	URL         string   // as in the claim iss; its keys are found by discovery
	JWKSURL     string   // where its keys are, for one without discovery
	Audiences   []string // required: a token must be meant for one of them
	Algorithms  []string // of signatures; empty: RS256, ES256 and EdDSA
	Tenant      string   // of all tokens; empty: TenantClaim names it
	TenantClaim string   // empty: Tenant is set
	UserClaim   string   // empty: sub
	RoleClaim   string   // a text, or a list whose first is taken; empty: none
	FlagsClaim  string   // an object; empty: none
	ScopeClaim  string   // claimWords in a text, or a list; empty: scope
	ScopePrefix string   // of the scopes that are meant for this runtime, removed; empty: all are
	Scopes      []string // that every token has in addition
}

// TokensConfig is what [NewTokens] needs.
type TokensConfig struct {
	Issuers []Issuer // at least one
	// Transport reaches the issuers; nil: as [http.DefaultTransport], without more connections than are needed.
	Transport http.RoundTripper
	Logger    *zap.Logger
	Now       func() time.Time // nil: the real clock
}

// Leeway bounds the difference between the clock of an issuer and ours.
const Leeway = 30 * time.Second

// maxTokenAge bounds the age of a token, to refuse broken values of iat.
const maxTokenAge = 10 * 365 * 24 * time.Hour

// Tokens verifies JSON Web Tokens of OpenID Connect issuers with the issuers' published keys. An issuer is first asked for its keys when one of
// its tokens arrives; while it is unavailable, the keys that were fetched before still count.
type Tokens struct {
	cfg     TokensConfig
	issuers map[string][]*issuer // by URL
}

// NewTokens checks the issuers and reports every fault. It sends no request.
func NewTokens(cfg TokensConfig) (*Tokens, error) {
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Transport == nil {
		cfg.Transport = issuerTransport()
	}
	v := &Tokens{cfg: cfg, issuers: map[string][]*issuer{}}
	var faults []error
	for i := range cfg.Issuers {
		set := cfg.Issuers[i]
		if err := set.validate(); err != nil {
			faults = append(faults, fmt.Errorf("issuer %d (%s): %w", i+1, set.URL, err))
			continue
		}
		if len(set.Algorithms) == 0 {
			set.Algorithms = []string{oidc.RS256, oidc.ES256, oidc.EdDSA}
		}
		v.issuers[set.URL] = append(v.issuers[set.URL], newIssuer(set, &cfg))
	}
	if len(cfg.Issuers) == 0 {
		faults = append(faults, errors.New("there are no issuers"))
	}
	return v, errors.Join(faults...)
}

func (i *Issuer) validate() error {
	asymmetric := []string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
	}
	for _, a := range i.Algorithms {
		if !slices.Contains(asymmetric, a) {
			return fmt.Errorf("algorithm %q: want one of %s", a, strings.Join(asymmetric, ", "))
		}
	}
	for _, s := range i.Scopes {
		if !access.ValidScope(s) {
			return fmt.Errorf("scope %q allows nothing that there is", s)
		}
	}
	switch {
	case i.URL == "":
		return errors.New("url is missing")
	case len(i.Audiences) == 0 || slices.Contains(i.Audiences, ""):
		return errors.New("audiences are missing")
	case (i.Tenant == "") == (i.TenantClaim == ""):
		return errors.New("want either tenant or tenant_claim")
	case i.Tenant != "" && i.Tenant != agent.AnyTenant && !agent.ValidName(i.Tenant):
		return fmt.Errorf("tenant %q is no name", i.Tenant)
	}
	return nil
}

// Verify implements [access.Verifier].
func (v *Tokens) Verify(ctx context.Context, token string) (agent.Principal, error) {
	if len(token) > access.MaxCredential {
		return agent.Principal{}, access.Refused("the token is longer than %d bytes", access.MaxCredential)
	}
	named, err := unverifiedIssuer(token)
	if err != nil {
		return agent.Principal{}, err
	}
	// The unverified name decides only which keys are used.
	issuers := v.issuers[named]
	if len(issuers) == 0 {
		return agent.Principal{}, access.Refused("tokens of this issuer are not accepted here")
	}
	err = nil
	for _, i := range issuers {
		var p agent.Principal
		if p, err = v.verify(ctx, i, token); err == nil {
			return p, nil
		}
	}
	return agent.Principal{}, err
}

func unverifiedIssuer(token string) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", access.Refused("the token is malformed")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", access.Refused("the token is malformed")
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return "", access.Refused("the token is malformed")
	}
	return claims.Issuer, nil
}

// verify checks a token of an issuer: the signature first.
func (v *Tokens) verify(ctx context.Context, i *issuer, token string) (agent.Principal, error) {
	keys, err := i.keySet(ctx)
	if err != nil {
		return agent.Principal{}, v.unavailable(ctx, i, err)
	}
	watched := &watchedKeys{KeySet: keys}
	verified, err := oidc.NewVerifier(i.set.URL, watched, &oidc.Config{
		SupportedSigningAlgs: i.set.Algorithms,
		SkipClientIDCheck:    true, // there may be several audiences: checked below
		SkipExpiryCheck:      true, // likewise, with Leeway
	}).Verify(ctx, token)
	switch {
	case watched.fetchErr != nil:
		return agent.Principal{}, v.unavailable(ctx, i, watched.fetchErr)
	case err != nil && watched.signed:
		return agent.Principal{}, access.Refused("the token is malformed")
	case err != nil:
		return agent.Principal{}, access.Refused("the token is not signed as its issuer signs")
	}
	claims := map[string]any{}
	if err := verified.Claims(&claims); err != nil {
		return agent.Principal{}, access.Refused("the token is malformed")
	}
	if !slices.ContainsFunc(verified.Audience, func(a string) bool { return slices.Contains(i.set.Audiences, a) }) {
		return agent.Principal{}, access.Refused("the token is meant for somebody else: its audience is not ours")
	}
	if err := checkTimes(claims, v.cfg.Now()); err != nil {
		return agent.Principal{}, err
	}
	p, uselessScope, err := i.set.principal(claims)
	if uselessScope != "" {
		i.warnScope.Do(func() {
			v.cfg.Logger.Warn("tokens of an issuer have scopes that allow nothing; they are passed over, and this is said once",
				zap.String("issuer", i.set.URL), zap.String("scope", uselessScope))
		})
	}
	return p, err
}

// checkTimes checks exp, nbf and iat. Each must be a number; the library would accept a text.
func checkTimes(claims map[string]any, now time.Time) error {
	exp, expErr := timeClaim(claims, "exp")
	nbf, nbfErr := timeClaim(claims, "nbf")
	iat, iatErr := timeClaim(claims, "iat")
	if err := cmp.Or(expErr, nbfErr, iatErr); err != nil {
		return err
	}
	switch {
	case exp.IsZero():
		return access.Refused("the token never expires: it needs the claim exp")
	case !now.Before(exp.Add(Leeway)):
		return access.Refused("the token has expired")
	case now.Add(Leeway).Before(nbf):
		return access.Refused("the token is not valid yet")
	case now.Add(Leeway).Before(iat):
		return access.Refused("the token was issued in the future: compare the clocks")
	case !iat.IsZero() && now.Sub(iat) > maxTokenAge:
		return access.Refused("the token was issued too long ago")
	}
	return nil
}

// timeClaim returns the time of a claim in seconds since 1970, the zero time if there is none.
func timeClaim(claims map[string]any, name string) (time.Time, error) {
	value, ok := claims[name]
	if !ok {
		return time.Time{}, nil
	}
	seconds, ok := value.(float64)
	if !ok || seconds < 0 || seconds > 1e11 {
		return time.Time{}, access.Refused("the token's claim %s is no time", name)
	}
	return time.Unix(int64(seconds), 0), nil
}

// unavailable returns the error for an issuer whose keys cannot be fetched, and logs the reason.
func (v *Tokens) unavailable(ctx context.Context, i *issuer, err error) error {
	if ctx.Err() != nil {
		return agent.Interrupted(ctx, "verify token")
	}
	v.cfg.Logger.Warn("fetch the keys of an issuer", zap.String("issuer", i.set.URL), zap.Error(err))
	return &agent.Error{
		Code: agent.CodeUnavailable, RetryAfter: minBackoff, Err: errors.New("the token's issuer cannot be reached now: try again"),
	}
}

// watchedKeys records why a signature was not verified: the library does not distinguish a wrong signature from keys that cannot be fetched.
type watchedKeys struct {
	oidc.KeySet

	signed   bool
	fetchErr error
}

// VerifySignature implements [oidc.KeySet].
func (w *watchedKeys) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := w.KeySet.VerifySignature(ctx, jwt)
	if err != nil && strings.HasPrefix(err.Error(), "fetching keys") { // go-oidc has no type for it; a test holds it to the text
		w.fetchErr = err
	}
	w.signed = err == nil
	return payload, err
}
