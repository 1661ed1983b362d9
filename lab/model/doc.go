// Package model is a model server for the lab. It speaks the chat completions of
// OpenAI's API, streaming and not, and behaves like an expensive model: the first token
// takes a while, each further one a little, only so many completions run concurrently, tokens
// per minute are limited (429, with the x-ratelimit fields), and every token is billed.
//
// Its answers follow from the prompt: equal requests get equal bytes. So a client can
// tell whether a response is right and whole.
package model
