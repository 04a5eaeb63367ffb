// Package authorize puts the credentials of auth profiles into requests that tools make ([tool.Auth]).
//
// A profile is sent to the hosts that it names and to no other; one without hosts is never sent. The first that fits decides. What it adds
// replaces a header or parameter of that name, which a model may have written. It goes over https alone, except to this machine, and except
// where a rule of the profile names the port: who writes internal.example:8080 has looked at what listens there. Redirects are
// the business of [egress]: it is told which headers and parameters are credentials.
//
// Secrets are read when they are needed, so a new one counts from the next request on. Access tokens (OAuth 2.0 client credentials) are kept
// until shortly before they run out, an hour at most, and fetched once for all requests that wait for one.
//
// Errors name the profile, never a secret, where it is or what a token endpoint has said.
package authorize
