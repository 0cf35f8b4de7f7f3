package imports

import (
	"strconv"
	"time"

	"dyno/internal/units"
)

// A rule says which fields get a number, and how they count. Fields have blanks between.
type rule struct {
	as func(v float64) string
	to string
}

func count(v float64) string      { return strconv.FormatFloat(v, 'f', 0, 64) }
func more(v float64) string       { return count(v + 1) }   // the first attempt too
func hundredths(v float64) string { return count(v * 100) } // weights may be shares of 1
func billionths(v float64) string { return count(v * 1e9) }
func seconds(v float64) string {
	return units.FormatDuration(time.Duration(min(max(v, -1), 1e9) * float64(time.Second)).Round(time.Millisecond))
}

// ofModels are LiteLLM's settings of single models, in litellm_params and model_info.
var ofModels = map[string]rule{
	"timeout": {seconds, "total_timeout"}, "stream_timeout": {seconds, "first_byte_timeout idle_timeout"},
	"weight": {hundredths, "weight"}, "order": {count, "priority"}, "rpm": {count, "requests_per_minute"}, "tpm": {count, "tokens_per_minute"},
	"max_parallel_requests": {count, "max_concurrent"}, "max_tokens": {count, "max_tokens"}, "max_output_tokens": {count, "max_tokens"},
	"input_cost_per_token": {billionths, "price.prompt"}, "output_cost_per_token": {billionths, "price.completion"},
	"cache_read_input_token_cost": {billionths, "price.cached"}, "cache_creation_input_token_cost": {billionths, "price.cache_write"},
	"input_cost_per_audio_token": {billionths, "price.prompt_audio"}, "output_cost_per_audio_token": {billionths, "price.completion_audio"},
	"input_cost_per_image_token": {billionths, "price.prompt_image"}, "output_cost_per_image_token": {billionths, "price.completion_image"},
	"output_cost_per_reasoning_token": {billionths, "price.reasoning"},
}

// ofAll are those of all models.
var ofAll = map[string]rule{
	"num_retries": {more, "upstream.attempts"}, "allowed_fails": {more, "upstream.failures"},
	"timeout": {seconds, "upstream.total_timeout"}, "request_timeout": {seconds, "upstream.total_timeout"},
	"stream_timeout": {seconds, "upstream.first_byte_timeout upstream.idle_timeout"}, "cooldown_time": {seconds, "upstream.cooldown upstream.max_cooldown"},
	"global_max_parallel_requests": {count, "max_concurrent"},
}

// lost are settings without a place, by the reason. What a change gives a place is taken out here.
var lost = map[string][]string{
	"a deployment's name is that of its provider and its model":                              {"id"},
	"upstream.attempts bounds the attempts of a request at all deployments":                  {"max_fallbacks", "max_retries", "num_retries"},
	"what is tried again, when, and what counts as a failure is fixed":                       {"retry_policy", "allowed_fails_policy", "retry_after", "disable_cooldowns"},
	"a model's context is not known before it answers":                                       {"enable_pre_call_checks", "max_input_tokens"},
	"there are no tags: keys have models":                                                    {"tags", "enable_tag_filtering"},
	"there is no table of prices: the deployment needs a price":                              {"base_model"},
	"the dialect says which features a server has":                                           {"supports_vision", "supports_function_calling", "supports_reasoning", "additional_drop_params", "modify_params"},
	"servers get API keys, and no tokens of Entra ID":                                        {"azure_ad_token", "tenant_id", "client_id", "client_secret"},
	"requests get no defaults: clients send them":                                            {"temperature", "top_p", "seed", "extra_body", "reasoning_effort", "thinking", "completion_model"},
	"whole answers of temperature 0 are cached, for each key by itself, in memory":           {"cache_params"},
	"the log is JSON without messages and keys; --verbose has it say more":                   {"set_verbose", "json_logs", "turn_off_message_logging", "redact_user_api_key_info"},
	"Prometheus has alerts: deploy/prometheus/rules.yml":                                     {"alerting", "alerting_threshold", "alerting_args", "alert_types"},
	"models are in the file, which SIGHUP has read again":                                    {"store_model_in_db"},
	"tokens of others need issuers, each with a key that pays":                               {"enable_jwt_auth", "litellm_jwtauth", "custom_auth"},
	"requests tell how a deployment is: none is asked for that":                              {"background_health_checks", "health_check_interval"},
	"other files are not read: import each by itself":                                        {"include"},
	"secrets can be replaced, by mask_in and mask_out; there are no other guardrails":        {"guardrails"},
	"keys, teams, users and spend in a database of LiteLLM's stay there; the archive is new": {"database_url"},
}

// strategies are upstream.balance, by LiteLLM's names.
var strategies = map[string]string{"simple-shuffle": "weight", "least-busy": "least_busy", "latency-based-routing": "latency"}

// reason says why a setting has no place.
func reason(name string) string {
	for why, names := range lost {
		for _, n := range names {
			if n == name {
				return why
			}
		}
	}
	return "there is no such setting"
}

// vendors are the providers in LiteLLM's names of models: a dialect, and the URL without api_base.
var vendors = map[string][2]string{
	"openai": {"openai", "https://api.openai.com/v1"}, "anthropic": {"anthropic", "https://api.anthropic.com/v1"},
	"gemini": {"gemini", "https://generativelanguage.googleapis.com/v1beta"}, "azure": {"azure", ""}, "azure_ai": {"azure", ""},
	"ollama": {"ollama", "http://localhost:11434"}, "ollama_chat": {"ollama", "http://localhost:11434"}, "hosted_vllm": {"vllm", ""}, "vllm": {"vllm", ""},
	"custom_openai": {"openai", ""}, "openai_like": {"openai", ""}, "litellm_proxy": {"openai", ""}, "lm_studio": {"openai", ""}, "databricks": {"openai", ""},
	"cerebras": {"openai", "https://api.cerebras.ai/v1"}, "codestral": {"openai", "https://codestral.mistral.ai/v1"},
	"cohere": {"openai", "https://api.cohere.ai/compatibility/v1"}, "cohere_chat": {"openai", "https://api.cohere.ai/compatibility/v1"},
	"dashscope": {"openai", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"}, "deepinfra": {"openai", "https://api.deepinfra.com/v1/openai"},
	"deepseek": {"openai", "https://api.deepseek.com/v1"}, "featherless_ai": {"openai", "https://api.featherless.ai/v1"},
	"fireworks_ai": {"openai", "https://api.fireworks.ai/inference/v1"}, "friendliai": {"openai", "https://api.friendli.ai/serverless/v1"},
	"groq": {"openai", "https://api.groq.com/openai/v1"}, "huggingface": {"openai", "https://router.huggingface.co/v1"},
	"hyperbolic": {"openai", "https://api.hyperbolic.xyz/v1"}, "meta_llama": {"openai", "https://api.llama.com/compat/v1"},
	"mistral": {"openai", "https://api.mistral.ai/v1"}, "moonshot": {"openai", "https://api.moonshot.ai/v1"},
	"nebius": {"openai", "https://api.studio.nebius.ai/v1"}, "novita": {"openai", "https://api.novita.ai/v3/openai"},
	"nvidia_nim": {"openai", "https://integrate.api.nvidia.com/v1"}, "openrouter": {"openai", "https://openrouter.ai/api/v1"},
	"perplexity": {"openai", "https://api.perplexity.ai"}, "sambanova": {"openai", "https://api.sambanova.ai/v1"},
	"together_ai": {"openai", "https://api.together.xyz/v1"}, "volcengine": {"openai", "https://ark.cn-beijing.volces.com/api/v3"},
	"xai": {"openai", "https://api.x.ai/v1"},
}

// variables are those of keys that do not have the usual name, OPENAI_API_KEY. The servers of "" need no key.
var variables = map[string]string{
	"ollama": "", "ollama_chat": "", "hosted_vllm": "", "vllm": "", "custom_openai": "", "openai_like": "", "lm_studio": "",
	"cohere_chat": "COHERE_API_KEY", "friendliai": "FRIENDLI_TOKEN", "huggingface": "HF_TOKEN", "meta_llama": "LLAMA_API_KEY",
	"perplexity": "PERPLEXITYAI_API_KEY", "together_ai": "TOGETHERAI_API_KEY",
}

// unreachable says why other providers have no place.
var unreachable = map[string]string{
	"bedrock": "AWS wants signed requests", "sagemaker": "AWS wants signed requests",
	"vertex_ai":              "Vertex AI wants tokens of Google's service accounts; gemini/ takes an API key",
	"text-completion-openai": "there is no /v1/completions",
}

// otherModels are parts of the names of models that are not for chats.
var otherModels = []string{"embed", "rerank", "whisper", "transcribe", "tts", "dall-e", "gpt-image", "moderation"}

// private are the networks of servers whose names are not public.
var private = []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}
