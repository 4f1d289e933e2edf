/* The plugin boundary of Rewire: plain C, ABI 1.5. C++ authors include rewire_plugin.hpp, which wraps it.
 *
 * A plugin is a shared library that exports one function, rewire_plugin_query. It returns a static
 * descriptor. The host judges it, and calls `rewrite`, once for each module, and `initialise`, once for each
 * fresh set of weights. In both, the plugin works through the host table that it is given.
 *
 * Rules
 * - Structs grow only at their end, and rewire_host with them: a plugin works with every host of its ABI
 *   major whose minor is equal or newer. What is marked fixed does not grow within a major.
 * - Nothing is allocated on one side and freed on the other. What one side passes, the other may read until
 *   the function returns; text from the host, until rewrite or initialise returns.
 * - Handles (rewire_call, rewire_value) die when rewrite or initialise returns, and belong to its thread.
 *   Using a dead one is an error, never undefined.
 * - Errors stick: after the first one every host function does nothing and returns a failure, and the host
 *   drops the whole rewrite whatever the plugin returns. So a status may be ignored.
 * - No exception, signal or longjmp crosses the boundary.
 * - A rewrite is a function of the module, the parameters and the seed: no clock, no environment, no state.
 */
#ifndef REWIRE_PLUGIN_H_
#define REWIRE_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REWIRE_ABI(major, minor) ((uint32_t)(((uint32_t)(major) << 16) | (uint32_t)(minor)))
#define REWIRE_ABI_VERSION REWIRE_ABI(1, 5)
#define REWIRE_PLUGIN_MAGIC UINT32_C(0x52575250) /* "PRWR" in memory */

#define REWIRE_OK 0
#define REWIRE_ERROR 1 /* after set_error: the plugin refuses, in its own words */
#define REWIRE_FAULT 2 /* ABI 1.1: a mistake of its own, with or without set_error */

/* Both sides must be built with the same sanitizer: its runtime cannot be added to a running process. */
#define REWIRE_SANITIZER_NONE 0u
#define REWIRE_SANITIZER_ADDRESS 1u
#define REWIRE_SANITIZER_THREAD 2u
#if defined(__SANITIZE_ADDRESS__)
#define REWIRE_SANITIZER REWIRE_SANITIZER_ADDRESS
#elif defined(__SANITIZE_THREAD__)
#define REWIRE_SANITIZER REWIRE_SANITIZER_THREAD
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define REWIRE_SANITIZER REWIRE_SANITIZER_ADDRESS
#elif __has_feature(thread_sanitizer)
#define REWIRE_SANITIZER REWIRE_SANITIZER_THREAD
#endif
#endif
#ifndef REWIRE_SANITIZER
#define REWIRE_SANITIZER REWIRE_SANITIZER_NONE
#endif

/* For messages: what built the plugin. rewire_add_plugin() says more. */
#ifndef REWIRE_BUILD_ID
#if defined(__clang__)
#define REWIRE_BUILD_ID "clang " __clang_version__
#else
#define REWIRE_BUILD_ID "gcc " __VERSION__
#endif
#endif

/* One call of rewrite or initialise. */
typedef uint64_t rewire_call;

/* A tensor value of the module. All zero: none. Fixed. */
typedef struct rewire_value {
  uint32_t index;
  uint32_t call;
} rewire_value;

/* dtypes: floats of 64, 32 and 16 bits (bf16: f32's range; f16: IEEE half), signed integers, bytes, truth
 * values. */
enum { REWIRE_F64, REWIRE_F32, REWIRE_BF16, REWIRE_F16, REWIRE_I64, REWIRE_I32, REWIRE_U8, REWIRE_I1 };
#define REWIRE_MAX_RANK 8

/* Fixed. Extents are >= 1, outermost first; rank 0 is a scalar. */
typedef struct rewire_type {
  uint32_t dtype;
  uint32_t rank;
  int64_t shape[REWIRE_MAX_RANK];
} rewire_type;

enum {
  REWIRE_ATTRIBUTE_BOOL,  /* integer: 0 or 1 */
  REWIRE_ATTRIBUTE_INT,   /* integer */
  REWIRE_ATTRIBUTE_FLOAT, /* real */
  REWIRE_ATTRIBUTE_STR,   /* text */
  REWIRE_ATTRIBUTE_INTS,  /* integers, count */
  REWIRE_ATTRIBUTE_FLOATS /* reals, count */
};

/* A named constant of an op; only the field of its kind is read. Fixed. */
typedef struct rewire_attribute {
  const char* name;
  uint32_t kind;
  uint32_t count;
  int64_t integer;
  double real;
  const char* text;
  const int64_t* integers;
  const double* reals;
} rewire_attribute;

/* An op to emit; rewire_ops.txt beside this header lists the ops of ABI 1 and their attributes. Operands of a
 * pointwise op broadcast as NumPy's do; dtypes must agree. Fixed. */
typedef struct rewire_op {
  const char* name;
  const rewire_value* operands;
  uint32_t operand_count;
  uint32_t attribute_count;
  const rewire_attribute* attributes;
  const rewire_type* type; /* the result, for cast, reshape, broadcast, constant and iota; else NULL */
} rewire_op;

/* A residual join. The plugin sets size = sizeof(rewire_join) and the host fills in no more than that. During
 * initialise the values are none. */
typedef struct rewire_join {
  uint32_t size;
  int32_t batch_axis, token_axis, channel_axis; /* of stream and branch */
  int64_t block, stage;                         /* from 0; stage 0 where a network has none */
  int64_t join_index, join_count;               /* over all joins of the scope, whatever the user's filters */
  int64_t heads;                                /* 0 where there are none */
  const char* name;                             /* "blocks.3.attn"; "decoder_blocks.3.attn" */
  const char* site;                             /* "attn", "mlp", "conv" */
  const char* scope;                            /* "encoder", "decoder" */
  const char* last_weight;                      /* the weight that ends the branch */
  const char* shortcut_owner;                   /* the plugin that claimed the slot; "" while unclaimed */
  const char* branch_owner;
  rewire_value stream;      /* x, before the join */
  rewire_value branch;      /* f, the branch's output after drop path */
  rewire_value input;       /* what the branch read: LN(x) in a pre-norm block */
  rewire_value shortcut;    /* slot as it stands: x in a fresh join, none once cleared */
  rewire_value branch_slot; /* slot as it stands: f in a fresh join */
  uint32_t path_count;      /* terms added beside the two slots */
  uint32_t weight_count;    /* weights that the branch reads */
  /* ABI 1.1 */
  int64_t block_count; /* blocks of the scope, whatever the user's filters */
  double drop_path;    /* the rate at which training drops a sample's branch; 0: never */
  /* ABI 1.3 */
  const char* sum_owner; /* the plugin that claimed the whole sum; "" while unclaimed */
} rewire_join;

/* A weight of the module. size as in rewire_join. */
typedef struct rewire_weight {
  uint32_t size;
  int32_t trainable; /* 0 or 1 */
  int32_t decay;     /* in the weight-decay group: 0 or 1 */
  uint32_t reserved; /* 0 */
  int64_t block;     /* -1 outside the blocks */
  const char* name;  /* "blocks.3.attn.qkv.weight" */
  const char* role;  /* "norm", "qkv", "proj", "fc1", "fc2", "conv", "layer_scale", ... */
  const char* site;  /* "" outside a branch */
  rewire_type type;
} rewire_weight;

enum {
  REWIRE_INIT_ZEROS,
  REWIRE_INIT_ONES,
  REWIRE_INIT_CONSTANT,      /* a */
  REWIRE_INIT_NORMAL,        /* mean 0, std a */
  REWIRE_INIT_TRUNC_NORMAL,  /* mean 0, std a, cut at -b and b */
  REWIRE_INIT_UNIFORM,       /* [a, b) */
  REWIRE_INIT_XAVIER_UNIFORM /* fans: the last two axes, out by in */
};

/* A weight to add; it will be called "blocks.3.join_attn.<name>". Fixed. */
typedef struct rewire_new_weight {
  const char* name;
  const rewire_type* type;
  uint32_t init;     /* REWIRE_INIT_… */
  int32_t trainable; /* 0 or 1 */
  int32_t decay;     /* 1: in the weight-decay group */
  uint32_t reserved; /* 0 */
  double a, b;       /* what `init` says */
} rewire_new_weight;

/* ABI 1.4. What the optimizer is told of one weight. A number counts if its bit stands in `fields`; all else
 * stays the run's. The plugin sets size = sizeof(rewire_weight_hint). */
#define REWIRE_HINT_LR_SCALE 1u
#define REWIRE_HINT_WEIGHT_DECAY 2u
#define REWIRE_HINT_BETA1 4u
#define REWIRE_HINT_BETA2 8u
typedef struct rewire_weight_hint {
  uint32_t size;
  uint32_t fields;     /* REWIRE_HINT_... */
  double lr_scale;     /* the learning rate is that of the run times this; finite, > 0 */
  double weight_decay; /* instead of the run's, in whichever group the weight is; finite, >= 0; 0: none */
  double beta1, beta2; /* of AdamW, in [0, 1); an optimizer that has none ignores them */
} rewire_weight_hint;

/* Levels of a message in the user's log, which shows information and warnings unless it is told otherwise. */
enum { REWIRE_LOG_DEBUG, REWIRE_LOG_INFO, REWIRE_LOG_WARNING };

/* The host's functions. [R]: in rewrite only, [I]: in initialise only, else in both. `join` counts from 0
 * over the joins that pass the user's filters. A function that returns a value returns none on failure;
 * int32_t is a status unless said otherwise. */
typedef struct rewire_host {
  uint32_t size;
  uint32_t abi;

  /* The parameters in force, parsed and validated against the schema; 0 on failure: a name that the schema
   * has not, or another kind. error() tells a 0 that is meant. */
  int32_t (*get_bool)(rewire_call, const char* name);
  int64_t (*get_int)(rewire_call, const char* name);
  double (*get_float)(rewire_call, const char* name);
  const char* (*get_text)(rewire_call, const char* name); /* str, enum; "" on failure */
  uint64_t (*seed)(rewire_call);

  void (*log)(rewire_call, uint32_t level, const char* message);
  void (*set_error)(rewire_call, const char* message);
  /* The error that stuck, or NULL while there is none. */
  const char* (*error)(rewire_call);

  /* Joins, in the order of the network; the weights that a branch reads; all weights of the module. */
  uint32_t (*join_count)(rewire_call);
  int32_t (*join)(rewire_call, uint32_t join, rewire_join* out);
  rewire_value (*join_path)(rewire_call, uint32_t join, uint32_t path); /* [R] */
  int32_t (*join_weight)(rewire_call, uint32_t join, uint32_t weight, rewire_weight* out);
  uint32_t (*weight_count)(rewire_call);
  int32_t (*weight)(rewire_call, uint32_t weight, rewire_weight* out);

  /* Values. New ops stand right before the join, behind what they use, and ahead of what is made to use them.
   * [R] */
  int32_t (*type)(rewire_call, rewire_value value, rewire_type* out);
  /* result_count is what rewire_ops.txt has; results holds as many. */
  int32_t (*emit)(rewire_call, uint32_t join, const rewire_op* op, rewire_value* results,
                  uint32_t result_count);
  rewire_value (*is_training)(rewire_call, uint32_t join); /* i1 scalar */
  /* Uniform in [0, 1), new numbers every step; a stream of its own, named after join, plugin and `name`. */
  rewire_value (*rng_stream)(rewire_call, uint32_t join, const char* name, const rewire_type* type);
  /* A weight as a value: a new one; any of the module. */
  rewire_value (*add_weight)(rewire_call, uint32_t join, const rewire_new_weight* weight);
  rewire_value (*weight_value)(rewire_call, uint32_t join, const char* full_name);

  /* The slots: the join is the sum of shortcut, branch slot and paths. Setting or clearing a slot claims it;
   * claiming what another plugin has claimed is an error. add_path claims nothing. See set_sum too. [R] */
  int32_t (*set_shortcut)(rewire_call, uint32_t join, rewire_value value);
  int32_t (*clear_shortcut)(rewire_call, uint32_t join);
  int32_t (*set_branch)(rewire_call, uint32_t join, rewire_value value);
  int32_t (*add_path)(rewire_call, uint32_t join, rewire_value value);

  /* The values of any weight, row-major, as doubles whatever its dtype; `count` is its element count. [I] */
  int32_t (*read_weight)(rewire_call, const char* full_name, double* data, uint64_t count);
  int32_t (*write_weight)(rewire_call, const char* full_name, const double* data, uint64_t count);
  /* Functions of the seed, the plugin's name, `stream` and the index alone. Both calls. */
  int32_t (*draw_uniform)(rewire_call, const char* stream, double* data, uint64_t count); /* [0, 1) */
  int32_t (*draw_normal)(rewire_call, const char* stream, double* data, uint64_t count);  /* mean 0, std 1 */

  /* ABI 1.1. Decompositions of `count` matrices of rows x cols, row-major, one behind the other; results
   * likewise. The same on any number of threads. Both calls. */
  /* a = q r: rows >= cols; q [rows, cols] with orthonormal columns, r [cols, cols] upper, its diagonal >= 0.
   */
  int32_t (*qr)(rewire_call, uint64_t count, uint64_t rows, uint64_t cols, const double* a, double* q,
                double* r);
  /* a = u diag(s) vt, k = min(rows, cols): u [rows, k], its columns' largest entries > 0; s [k] descending;
   * vt [k, cols]. */
  int32_t (*svd)(rewire_call, uint64_t count, uint64_t rows, uint64_t cols, const double* a, double* u,
                 double* s, double* vt);

  /* ABI 1.2. The first `largest` of svd's triples alone, several times as fast where they are few: u [rows,
   * largest], s [largest], vt [largest, cols]; 1 <= largest <= min(rows, cols). Both calls. */
  int32_t (*svd_of_largest)(rewire_call, uint64_t count, uint64_t rows, uint64_t cols, uint64_t largest,
                            const double* a, double* u, double* s, double* vt);

  /* ABI 1.3. [R] */
  /* The join is `value` alone. Claims both slots and the paths: an error where a plugin has set, changed or
   * added anything, and for whoever does so later, by change_sum excepted. */
  int32_t (*set_sum)(rewire_call, uint32_t join, rewire_value value);
  /* What stands in a slot, or the whole sum as it stands, becomes `value`, which is computed from it. Claims
   * nothing: several plugins may, one after the other, in the order in which the user names them. Setting a
   * slot behind that is an error, and after change_sum setting, changing or adding a term: name such a
   * plugin before. */
  int32_t (*change_shortcut)(rewire_call, uint32_t join, rewire_value value);
  int32_t (*change_branch)(rewire_call, uint32_t join, rewire_value value);
  int32_t (*change_sum)(rewire_call, uint32_t join, rewire_value value);

  /* ABI 1.4. [R] Values within the network by their role at a join:
   *   norm_input  what the branch's norm reads, of the stream's type: x in a pre-norm block
   *   input       what the branch reads: the norm's result
   *   q, k, v     the operands of the branch's attention, [batch, heads, tokens, width of a head]
   *   attention   its result
   *   hidden      what the branch's last layer reads
   *   entry       the stream of the scope's first join: the embedding
   *   exit        the result of the scope's last join: what the final norm reads */
  /* As it stands; none, and no error, where the join has no such value. */
  rewire_value (*role_value)(rewire_call, uint32_t join, const char* role);
  /* All that reads it (of `norm_input` to `hidden`: in the branch) reads `value` instead, which is of its
   * type. What another plugin has replaced must go into the value; `input` and `exit` can be replaced once.
   */
  int32_t (*replace_value)(rewire_call, uint32_t join, const char* role, rewire_value value);
  /* add_weight, of which `init`, a and b are not read: it begins as these numbers, row-major, one an element.
   */
  rewire_value (*add_weight_of)(rewire_call, uint32_t join, const rewire_new_weight* weight,
                                const double* values, uint64_t count);
  /* Where in the plugin's source the next functions are called, told behind what goes wrong in them; NULL:
   * nowhere. */
  int32_t (*locate)(rewire_call, const char* place);

  /* ABI 1.4: hooks. What a step of training does beside the forward pass. [R]
   * `weight` is the name that add_weight had at this join, or a full name. A scalar is a float value of one
   * element, of any rank. Values may use what stands before the join. */
  /* Of a weight that trains. Two hints of one weight may not differ in a number. */
  int32_t (*weight_hint)(rewire_call, uint32_t join, const char* weight, const rewire_weight_hint* hint);
  /* The scalar is "report.<join>.<plugin>.<name>" in the training lines of metrics.jsonl, the mean over the
   * line's steps; `name` is [a-z][a-z0-9_]*, once a join and plugin. */
  int32_t (*report)(rewire_call, uint32_t join, const char* name, rewire_value scalar);
  /* An f32 scalar: the share of the run's optimizer steps that are done, 0 in the first step and below 1 in
   * the last; in evaluation, that of the weights. It carries no gradient. */
  rewire_value (*progress)(rewire_call, uint32_t join);
  /* The scalar is a term of the loss that is trained, once for each call; evaluation has none. */
  int32_t (*add_loss)(rewire_call, uint32_t join, rewire_value scalar);
  /* Every step of training gives a weight that does not train this value, of its shape: once a weight. */
  int32_t (*update_state)(rewire_call, uint32_t join, const char* weight, rewire_value value);
  /* A weight that trains takes this value, of its shape, behind every update of the optimizer: a function of
   * the weight itself, as weight_value and add_weight give it, and of weights that do not train. The ops
   * compute it from the optimizer's new value. Once a weight. */
  int32_t (*after_step)(rewire_call, uint32_t join, const char* weight, rewire_value value);
} rewire_host;

enum {
  REWIRE_PARAMETER_BOOL,  /* true or false */
  REWIRE_PARAMETER_INT,   /* 64 bits, with bounds */
  REWIRE_PARAMETER_FLOAT, /* a double, with bounds */
  REWIRE_PARAMETER_ENUM,  /* one of `values` */
  REWIRE_PARAMETER_STR    /* any text */
};
#define REWIRE_MIN 1u          /* min is a bound */
#define REWIRE_MAX 2u          /* max is a bound */
#define REWIRE_MIN_EXCLUDED 4u /* ... that is itself refused */
#define REWIRE_MAX_EXCLUDED 8u

/* One parameter that the user may set. Names are [a-z][a-z0-9_]*; sites, layers, scope, from_epoch and
 * to_epoch are the host's. */
typedef struct rewire_parameter {
  const char* name;
  const char* default_value; /* as a user would write it */
  const char* doc;           /* one line */
  const char* values;        /* enum: "feature|global" */
  uint32_t kind;
  uint32_t bounds; /* REWIRE_MIN | ... of int and float */
  double min, max;
} rewire_parameter;

typedef struct rewire_plugin {
  /* The handshake; these five stand here in every ABI. */
  uint32_t magic;       /* REWIRE_PLUGIN_MAGIC */
  uint32_t size;        /* sizeof(rewire_plugin), as the plugin was compiled */
  uint32_t abi;         /* REWIRE_ABI_VERSION, as the plugin was compiled */
  uint32_t sanitizer;   /* REWIRE_SANITIZER */
  const char* build_id; /* compiler and whatever tells this build from others: for messages */
  /* ABI 1.0 */
  const char* name; /* [a-z][a-z0-9_]* */
  const char* version;
  const char* doc; /* one line */
  const rewire_parameter* parameters;
  uint32_t parameter_count;
  uint32_t parameter_size; /* sizeof(rewire_parameter), as the plugin was compiled */
  int32_t (*rewrite)(const rewire_host*, rewire_call);
  int32_t (*initialise)(const rewire_host*, rewire_call); /* or NULL */
} rewire_plugin;

/* The one exported symbol. `host_abi` is the host's REWIRE_ABI_VERSION. */
#define REWIRE_EXPORT __attribute__((visibility("default")))
REWIRE_EXPORT const rewire_plugin* rewire_plugin_query(uint32_t host_abi);

#ifdef __cplusplus
}
#endif
#endif
