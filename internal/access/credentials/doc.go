// Package credentials verifies what callers send: API keys ([Keys]), tokens of OpenID Connect issuers ([Tokens]) and client certificates
// ([Certificates]). Package access joins them.
package credentials
